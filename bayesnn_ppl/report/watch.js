/* Asks what is committed, and takes the new page's content when it is another. */
function follow(shown) {
  const line = made("p", { className: "note", id: "progress" });
  line.setAttribute("role", "status");
  document.querySelector("header").append(line);
  const tell = (words) => { if (line.textContent !== words) line.textContent = words; };
  const renew = async () => {
    const answer = await fetch("/");
    if (!answer.ok) return false;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const content = document.getElementById("content");
    const open = [...content.querySelectorAll("details")].map((part) => part.open);
    const chosen = [...content.querySelectorAll("select")].map((part) => part.selectedIndex);
    const links = page.querySelector("nav");
    const old = document.querySelector("nav");
    if (links && old) old.replaceWith(links);
    else if (links) line.before(links);
    content.replaceChildren(...page.getElementById("content").childNodes);
    enliven(content);
    content.querySelectorAll("details").forEach((part, i) => { part.open = open[i] || part.open; });
    content.querySelectorAll("select").forEach((part, i) => {
      if (chosen[i] > 0 && chosen[i] < part.options.length) {
        part.selectedIndex = chosen[i];
        part.dispatchEvent(new Event("change"));
      }
    });
    return true;
  };
  const look = async () => {
    let pause = 1500;
    try {
      const state = await (await fetch("/state")).json();
      const words = state.complete
        ? `The run is complete: ${state.draws} draws a chain.`
        : `In progress: ${state.phase}, ${state.done} done, ${state.draws} draws a chain kept.`;
      if (state.commit !== shown && state.wait <= 0) {
        if (await renew()) shown = state.commit;
      }
      tell(words + (state.commit !== shown ? " The page follows in a moment." : ""));
      if (state.complete && state.commit === shown) pause = 5000;
    } catch (gone) {
      tell("The server has ended; what you see is the last page.");
      pause = 5000;
    }
    setTimeout(look, pause);
  };
  look();
}
