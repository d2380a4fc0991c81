"use strict";
function made(kind, properties, ...children) {
  const element = Object.assign(document.createElement(kind), properties);
  element.append(...children);
  return element;
}
/* A page without storage, as from a file, still changes its theme. */
function remembered(value) {
  try {
    if (value !== undefined) localStorage.setItem("bayesnn-theme", value);
    return localStorage.getItem("bayesnn-theme");
  } catch (refused) { return null; }
}
function themes() {
  const label = made("label", {}, "Theme ");
  const choice = made("select", { id: "theme" });
  for (const name of ["system", "light", "dark"]) choice.append(made("option", { value: name, textContent: name }));
  const apply = () => {
    if (choice.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice.value;
  };
  choice.value = remembered() || "system";
  if (choice.selectedIndex < 0) choice.value = "system";
  choice.addEventListener("change", () => { apply(); remembered(choice.value); });
  apply();
  label.append(choice);
  document.getElementById("controls").append(label);
}
function amount(text) {
  const found = text.replace("−", "-").replace("∞", "Infinity").match(/-?(Infinity|[\d.]+(e[+-]?\d+)?)/);
  return found ? parseFloat(found[0]) : NaN;
}
function sortable(table) {
  const body = table.tBodies[0];
  if (!table.tHead || body.rows.length < 2) return;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = made("button", { type: "button", textContent: head.textContent || "name" });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const numbers = head.classList.contains("number");
      const rows = [...body.rows].sort((a, b) => {
        const [p, q] = [a, b].map((row) => row.cells[column].textContent);
        if (!numbers) return p.localeCompare(q, undefined, { numeric: true });
        const [v, w] = [amount(p), amount(q)];
        return (Number.isNaN(v) - Number.isNaN(w)) || v - w || 0;
      });
      body.append(...(down ? rows.reverse() : rows));
    });
  });
}
function choices(group) {
  const parts = [...group.querySelectorAll(":scope > .choice")];
  const tools = made("div", { className: "tools" });
  if (parts.length > 1) {
    const select = made("select");
    parts.forEach((part, i) => select.append(made("option", { value: i, textContent: part.dataset.label })));
    const show = () => parts.forEach((part, i) => part.classList.toggle("hidden", i !== Number(select.value)));
    select.addEventListener("change", show);
    tools.append(made("label", {}, "Quantity ", select));
    show();
  }
  for (let chain = 0; chain < Number(group.dataset.chains); chain += 1) {
    const swatch = made("span", { className: "swatch" });
    swatch.style.background = chain < 6 ? `var(--c${chain})` : "var(--ink)";
    const button = made("button", { type: "button" }, swatch, `chain ${chain}`);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      for (const drawn of group.querySelectorAll(`.chain-${chain}`)) drawn.classList.toggle("faded", !on);
    });
    tools.append(button);
  }
  group.prepend(tools);
}
function copies(block) {
  const button = made("button", { type: "button", textContent: "Copy" });
  button.addEventListener("click", async () => {
    const words = block.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(words);
      button.textContent = "Copied";
    } catch (refused) {
      getSelection().selectAllChildren(block.querySelector("code"));
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
}
function enliven(root) {
  root.querySelectorAll("table").forEach(sortable);
  root.querySelectorAll(".choices").forEach(choices);
  root.querySelectorAll(".copied").forEach(copies);
}
themes();
enliven(document);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
