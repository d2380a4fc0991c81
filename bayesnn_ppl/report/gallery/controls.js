/* Choices, time and readings of the gallery; every control is a native one. */
const LEGENDS = {
  leapfrogs: [["c0", "accepted path and draw"], ["bad dashed", "rejected path and proposal (×)"]],
  proposal: [["c0", "accepted proposal"], ["bad dashed", "rejected proposal (×)"]],
  tree: [["ink dots", "points of the tree, every second doubling"], ["c4 dots", "and the others"], ["bad hollow", "points of a doubling cut short"], ["c0", "the chosen point (ring)"]],
  steps: [["c0", "path and draw"]],
  particles: [["c0", "particles and their last 25 steps"]],
};
async function gallery() {
  const all = JSON.parse(document.getElementById("runs").textContent);
  const stage = document.getElementById("stage");
  if (!window.DecompressionStream) {
    stage.append(made("p", { className: "verdict", textContent: "The animation needs a browser of 2023 or later; the figure and the table below do not." }));
    return;
  }
  const exact = await unpacked(all.exact);
  const parts = {};
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const plane = made("canvas", { id: "plane", tabIndex: 0 });
  const trace = made("canvas", { id: "trace" });
  for (const canvas of [plane, trace]) canvas.setAttribute("role", "img");
  const fields = made("div", { className: "fields" });
  const field = (words, input) => { fields.append(made("label", {}, words, input)); return input; };
  const pick = (id, words) => {
    const select = field(words, made("select", { id }));
    select.addEventListener("change", choose);
    return select;
  };
  const sampler = pick("sampler", "Sampler");
  const target = pick("target", "Target");
  const step = pick("step", "Step size");
  const heat = pick("heat", "Temperature");
  /* Draws a second are 2 to this power. */
  const speed = field("Speed", made("input", { id: "speed", type: "range", min: -1, max: 7, step: 0.5, value: 1 }));
  const moment = field("Draw", made("input", { id: "moment", type: "range", min: 1, value: 1 }));
  const button = (id, words, act) => {
    const found = made("button", { id, type: "button", textContent: words });
    found.addEventListener("click", act);
    return found;
  };
  const play = button("playing", "Play", () => toggle());
  const tools = made("div", { className: "tools" }, play, button("back", "Step back", () => move(-1)),
    button("step-on", "Step", () => move(1)), button("again", "From the start", () => { now = 0; setRunning(true); }));
  const look = made("p", { id: "look" });
  const warning = made("p", { id: "stopped", className: "verdict" });
  const said = made("p", { id: "said", className: "note" });
  said.setAttribute("aria-live", "polite");
  const legend = made("ul", { id: "legend" });
  const numbers = made("dl", { className: "pairs", id: "readings" });
  const words = made("p", { className: "note", id: "meaning" });
  const hint = made("p", { className: "note", textContent: "Keys, with the plane in focus: space plays and pauses, ← and → step, Home goes to the start and End to the end. A tap on the plane plays and pauses." });
  stage.append(made("div", { className: "pictures" }, plane, legend, trace), made("div", { className: "side" }, fields, tools, look, warning, said, numbers, words, hint));
  const fill = (select, values, chosen) => {
    select.replaceChildren(...values.map((value, i) => made("option", { value: i, textContent: value })));
    select.selectedIndex = chosen;
  };
  const name = (select) => select.options[select.selectedIndex].textContent;
  const colour = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  let run = null, density = null, running = false, now = 0, last = null, shown = null, asked = 0;
  const names = Object.keys(all.samplers);
  const steps = () => fill(step, all.samplers[name(sampler)].steps.map((value, i) => `${["short", "middle", "long"][i]}: ${value}`), Math.max(step.selectedIndex, 0));
  const marginal = (axis) => {
    const start = ((target.selectedIndex * all.temperatures.length + heat.selectedIndex) * 2 + axis) * all.exact.points;
    return Array.from(exact.curves.subarray(start, start + all.exact.points), (value) => value / 32000);
  };
  const paint = () => { density = backdrop(all, exact.levels, target.selectedIndex, all.temperatures[heat.selectedIndex], colour); };
  const draw = () => {
    if (!run) return;
    const fast = 2 ** Number(speed.value) > 12;
    const count = Math.min(Math.floor(now), run.draws);
    const share = running && !fast && count < run.draws && run.made(0) > count ? now - count : 1;
    const view = { all, run, density, colour, count, share };
    view.exact = { curve: marginal, peaks: all.exact.peaks[target.selectedIndex][heat.selectedIndex] };
    drawPlane(plane, view);
    if (count === shown && running) return; // the rest changes with draws alone
    shown = count;
    drawTraces(trace, colour, run, count, all.reach);
    moment.value = count;
    moment.setAttribute("aria-valuetext", `draw ${count} of ${run.draws}`);
    read(count);
  };
  const outcome = (count) => {
    if (run.particles || count < 1) return null;
    if (run.made(0) < count) return "the chain has stopped";
    if (run.about.path === "tree") return `chosen from ${run.points(count - 1).length + 1} points`;
    const moved = run.moved(count - 1);
    return moved === null ? "moved, nothing is rejected" : moved ? "accepted" : "rejected: the chain stays";
  };
  const read = (count) => {
    const known = run.known(count);
    const told = (value, digits) => (value === null ? "–" : digits === 2 && value > 300 ? "above 300" : value.toFixed(digits));
    const pairs = {
      "draw": `${count} of ${run.draws}`,
      "last draw": outcome(count),
      "accepted so far": run.particles ? null : run.about.exact ? (known.accepted === null ? "–" : `${Math.round(100 * known.accepted)} %`) : "no accept step",
      "R-hat": run.particles ? null : known.rhat > 30 ? "above 30" : told(known.rhat, 3),
      "effective sample size": run.particles ? null : told(known.ess, 0),
      "configurational T": told(known.configurational, 2),
      "kinetic T": known.kinetic === null ? null : told(known.kinetic, 2),
      "gradients a draw": run.about.gradients,
      [run.particles ? "particles" : "chains"]: String(run.chains),
    };
    numbers.replaceChildren(...Object.entries(pairs).filter(([, value]) => value !== null).map(([key, value]) => made("div", {},
      made("dt", { textContent: key }), made("dd", { textContent: value }))));
    const halted = run.stopped.filter((chain) => run.made(chain) <= count);
    warning.hidden = halted.length === 0;
    warning.textContent = halted.length ? `Stopped: ${halted.map((chain) => `chain ${chain + 1} ${run.made(chain) ? `after draw ${run.made(chain)}` : "at its start"}`).join(", ")}. The step is too long here, and the numbers overflowed.` : "";
    if (!running) said.textContent = `${name(sampler)} on ${name(target)}, ${name(heat)}: draw ${count}${outcome(count) ? `, ${outcome(count)}` : ""}.`;
  };
  const key = (kind, text) => made("li", {}, made("span", { className: kind }), text);
  async function choose(event) {
    if (!event || event.target === sampler) steps();
    const chosen = name(sampler);
    const about = all.samplers[chosen];
    const mine = asked += 1;
    if (!parts[chosen]) parts[chosen] = await unpacked(about.runs);
    if (mine !== asked) return; // something else was chosen meanwhile
    const index = (target.selectedIndex * about.steps.length + step.selectedIndex) * all.temperatures.length + heat.selectedIndex;
    run = oneRun(all, about, parts[chosen], index);
    run.step = about.steps[step.selectedIndex];
    moment.max = run.draws;
    look.textContent = about.look;
    words.textContent = `Step size: ${about.meaning}. ${run.particles ? "" : "The path is that of chain 1 (blue); the small dots are the other chains. "}Beside the plane: all draws so far (bars) and the exact marginals (lines). Below: traces of both coordinates.`;
    const keys = LEGENDS[about.path].map((pair) => key(...pair));
    if (about.drift) keys.push(key("ink", "drift"));
    if (run.noise(0)) keys.push(key("ink", "true gradient (downhill)"), key("c1", "gradient of the minibatch"), key("c1 dots", "of earlier minibatches"));
    if (!run.particles) keys.push(key("c2 dots", "other chains"));
    legend.replaceChildren(...keys);
    const title = `${chosen} on the target ${name(target)}, step ${name(step)}, ${name(heat)}`;
    plane.setAttribute("aria-label", `Draws of ${title}, with the marginals of both coordinates. Space plays and pauses, arrow keys step.`);
    trace.setAttribute("aria-label", `Traces of both coordinates, ${title}`);
    paint();
    shown = null;
    now = running ? 0 : Math.min(Math.max(Math.floor(now), 1), run.draws);
    draw();
  }
  const setRunning = (on) => {
    running = on;
    if (on && run && now >= run.draws) now = 0;
    play.textContent = running ? "Pause" : "Play";
    shown = null;
    draw();
  };
  const toggle = () => { if (running) now = Math.floor(now + 1e-9); setRunning(!running); };
  const go = (draws) => { now = Math.max(1, Math.min(run.draws, draws)); setRunning(false); };
  /* A step shows the whole of the next move. */
  const move = (by) => go(Math.floor(now) + by);
  const tick = (time) => {
    if (running && run && last !== null) {
      now += Math.min(time - last, 200) / 1000 * 2 ** Number(speed.value);
      if (now >= run.draws) go(run.draws);
      else draw();
    }
    last = time;
    requestAnimationFrame(tick);
  };
  moment.addEventListener("input", () => go(Number(moment.value)));
  const pace = () => speed.setAttribute("aria-valuetext", `${(2 ** Number(speed.value)).toPrecision(2)} draws a second`);
  speed.addEventListener("input", pace);
  plane.addEventListener("click", toggle);
  plane.addEventListener("keydown", (event) => {
    const acts = { " ": toggle, ArrowRight: () => move(1), ArrowLeft: () => move(-1), Home: () => go(1), End: () => go(run.draws) };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });
  const repaint = () => { paint(); shown = null; draw(); };
  document.getElementById("theme").addEventListener("change", repaint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  new ResizeObserver(() => { shown = null; draw(); }).observe(plane);
  fill(sampler, names, 0);
  fill(target, all.targets, 0);
  fill(heat, all.temperatures.map((t) => `T = ${t}`), 1);
  steps();
  step.selectedIndex = 1;
  pace();
  now = still.matches ? 30 : 0;
  await choose({});
  setRunning(!still.matches);
  requestAnimationFrame(tick);
}
gallery();
