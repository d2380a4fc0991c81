function bytes(text) { return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)); }
function gallery() {
  const all = JSON.parse(document.getElementById("runs").textContent);
  const stage = document.getElementById("stage");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const plane = made("canvas", { id: "plane", width: 680, height: 680 });
  const trace = made("canvas", { id: "trace", width: 680, height: 136 });
  plane.setAttribute("role", "img");
  trace.setAttribute("role", "img");
  const fields = made("div", { className: "fields" });
  const pick = (name, words) => {
    const select = made("select", { id: name });
    fields.append(made("label", {}, words, select));
    select.addEventListener("change", () => choose(name));
    return select;
  };
  const target = pick("target", "Target");
  const sampler = pick("sampler", "Sampler");
  const step = pick("step", "Step size");
  const heat = pick("heat", "Temperature");
  const speed = made("input", { id: "speed", type: "range", min: 1, max: 120, value: 20 });
  fields.append(made("label", {}, "Draws a second", speed));
  const moment = made("input", { id: "moment", type: "range", min: 1, value: 1 });
  fields.append(made("label", {}, "Draw", moment));
  const play = made("button", { id: "playing", type: "button" });
  const again = made("button", { id: "again", type: "button", textContent: "From the start" });
  const tools = made("div", { className: "tools" }, play, again);
  const numbers = made("dl", { className: "pairs", id: "readings" });
  const words = made("p", { className: "note", id: "meaning" });
  stage.append(made("div", {}, plane, trace), made("div", {}, fields, tools, numbers, words));
  const fill = (select, values) => {
    const before = select.selectedIndex;
    select.replaceChildren(...values.map((value, i) => made("option", { value: i, textContent: value })));
    select.selectedIndex = before >= 0 && before < values.length ? before : 0;
  };
  fill(target, Object.keys(all.densities));
  fill(sampler, Object.keys(all.samplers));
  fill(heat, all.temperatures.map((t) => `T = ${t}`));
  const name = (select) => select.options[select.selectedIndex].textContent;
  let shown = null, draws = null, backdrop = null, running = !still.matches, now = 1, last = null;
  const colour = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  const paint = () => {
    const density = bytes(all.densities[name(target)]);
    const image = new ImageData(all.grid, all.grid);
    const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgb = (variable) => {
      probe.fillStyle = colour(variable);
      probe.fillRect(0, 0, 1, 1);
      return probe.getImageData(0, 0, 1, 1).data;
    };
    const [paper, ink] = [rgb("--paper"), rgb("--soft")];
    density.forEach((value, i) => {
      const share = 0.75 * value / 255;
      for (let c = 0; c < 3; c += 1) image.data[4 * i + c] = paper[c] + share * (ink[c] - paper[c]);
      image.data[4 * i + 3] = 255;
    });
    backdrop = document.createElement("canvas");
    backdrop.width = backdrop.height = all.grid;
    backdrop.getContext("2d").putImageData(image, 0, 0);
  };
  const at = (chain, draw, axis) => all.span / 32767 * draws[2 * (chain * shown.shape[1] + draw) + axis];
  const place = (chain, draw) => [0, 1].map((axis) => {
    const share = (at(chain, draw, axis) / all.reach + 1) / 2;
    return plane.width * (axis ? 1 - share : share);
  });
  const draw = () => {
    const [chains, count] = shown.shape;
    const many = chains > 8;
    const upto = Math.min(Math.max(1, Math.floor(now)), count);
    const hues = [0, 1, 2, 3].map((c) => colour(`--c${c}`));
    const pen = plane.getContext("2d");
    pen.imageSmoothingEnabled = true;
    pen.drawImage(backdrop, 0, 0, plane.width, plane.height);
    for (let chain = 0; chain < chains; chain += 1) {
      const hue = hues[chain % 4];
      pen.fillStyle = pen.strokeStyle = hue;
      pen.globalAlpha = many ? 0 : 0.55;
      for (let i = 0; i < upto && !many; i += 1) {
        const [x, y] = place(chain, i);
        pen.beginPath();
        pen.arc(x, y, 2.4, 0, 7);
        pen.fill();
      }
      pen.globalAlpha = many ? 0.5 : 0.9;
      pen.lineWidth = 1.6;
      pen.beginPath();
      for (let i = Math.max(0, upto - (many ? 25 : 12)); i < upto; i += 1) pen.lineTo(...place(chain, i));
      pen.stroke();
      pen.globalAlpha = 1;
      const [x, y] = place(chain, upto - 1);
      pen.beginPath();
      pen.arc(x, y, 6, 0, 7);
      pen.fill();
    }
    const line = trace.getContext("2d");
    line.fillStyle = colour("--paper");
    line.fillRect(0, 0, trace.width, trace.height);
    for (let chain = 0; chain < chains; chain += 1) {
      line.strokeStyle = hues[chain % 4];
      line.globalAlpha = 0.8;
      line.beginPath();
      for (let i = 0; i < upto; i += 1) {
        const share = (at(chain, i, 0) / all.reach + 1) / 2;
        line.lineTo(trace.width * i / count, trace.height * (1 - share));
      }
      line.stroke();
      line.globalAlpha = 1;
    }
    moment.value = upto;
    read(upto, count, chains);
  };
  const read = (upto, count, chains) => {
    let look = -1;
    shown.looks.forEach((seen, i) => { if (seen <= upto) look = i; });
    const known = (list, digits) => (!list || look < 0 || list[look] === null ? "–" : list[look].toFixed(digits));
    const pairs = {
      "draw": `${upto} of ${count}`,
      "R-hat": known(shown.rhat, 3),
      "effective sample size": known(shown.ess, 0),
      "accepted": shown.accepted === null ? "no accept step" : `${Math.round(100 * shown.accepted)} %`,
      "configurational T": known(shown.configurational, 2),
      "kinetic T": known(shown.kinetic, 2),
      "gradients a draw": all.samplers[name(sampler)].gradients,
      [chains > 8 ? "particles" : "chains"]: String(chains),
    };
    numbers.replaceChildren(...Object.entries(pairs).map(([key, value]) => made("div", {},
      made("dt", { textContent: key }), made("dd", { textContent: value }))));
  };
  const choose = (changed) => {
    const chosen = all.samplers[name(sampler)];
    if (changed === "sampler" || step.options.length === 0) {
      const first = step.options.length === 0;
      fill(step, chosen.steps.map(String));
      if (first) { step.selectedIndex = 1; heat.selectedIndex = 1; }
    }
    shown = all.runs[`${name(target)}/${name(sampler)}/${step.selectedIndex}/${heat.selectedIndex}`];
    draws = new Int16Array(bytes(shown.draws).buffer);
    moment.max = shown.shape[1];
    words.textContent = `Step size: ${chosen.meaning}. Below the plane: the trace of the first coordinate.`;
    plane.setAttribute("aria-label", `Draws of ${name(sampler)} on the target ${name(target)}, step ${name(step)}, ${name(heat)}`);
    trace.setAttribute("aria-label", `Trace of the first coordinate, ${name(sampler)} on ${name(target)}`);
    paint();
    now = running ? 1 : shown.shape[1];
    draw();
  };
  const label = () => { play.textContent = running ? "Pause" : "Play"; };
  const tick = (time) => {
    if (running && last !== null) {
      now += Math.min(time - last, 200) / 1000 * Number(speed.value);
      if (now >= shown.shape[1]) { now = shown.shape[1]; running = false; label(); }
      draw();
    }
    last = time;
    requestAnimationFrame(tick);
  };
  play.addEventListener("click", () => {
    running = !running;
    if (running && now >= shown.shape[1]) now = 1;
    label();
  });
  again.addEventListener("click", () => { now = 1; running = true; label(); draw(); });
  moment.addEventListener("input", () => { running = false; label(); now = Number(moment.value); draw(); });
  const repaint = () => { paint(); draw(); };
  document.getElementById("theme").addEventListener("change", repaint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  label();
  choose("target");
  requestAnimationFrame(tick);
}
gallery();
