/* One move of the first chain: a proposal, a path of leapfrogs, a tree, or steps; and gradients. */
/* The first `share` of a broken line through the points. */
function partOf(points, share) {
  const length = share * (points.length - 1);
  const whole = Math.floor(length);
  const shown = points.slice(0, whole + 1);
  if (whole < points.length - 1) {
    const [a, b] = [points[whole], points[whole + 1]];
    shown.push([0, 1].map((axis) => a[axis] + (length - whole) * (b[axis] - a[axis])));
  }
  return shown;
}
function drawMove(pen, colour, run, draw, share, to) {
  if (draw < 0 || draw >= run.draws || draw >= run.made(0)) return;
  const from = to(run.at(0, draw - 1));
  const end = to(run.at(0, draw));
  const points = run.points(draw).map(to);
  pen.lineWidth = 1.8;
  if (run.about.path === "tree") drawTree(pen, colour, from, end, points, run.forward(draw), share);
  else if (run.about.path === "steps") {
    const shown = partOf([from, ...points, end], share);
    pen.strokeStyle = pen.fillStyle = colour("--c0");
    line(pen, shown);
    if (points.length) shown.slice(1).forEach((point) => dot(pen, point, 1.8));
    dot(pen, shown[shown.length - 1], 6);
  } else {
    const shown = partOf([from, ...points], Math.min(share / REVEAL, 1));
    const known = share >= REVEAL;
    const accepted = run.moved(draw);
    pen.strokeStyle = pen.fillStyle = colour(!known ? "--ink" : accepted ? "--c0" : "--bad");
    line(pen, shown, known && !accepted ? [5, 4] : []);
    if (points.length > 1) shown.slice(1).forEach((point) => dot(pen, point, 2.2));
    const last = shown[shown.length - 1];
    if (!known) dot(pen, last, 4);
    else if (accepted) dot(pen, last, 6);
    else {
      cross(pen, ...last, 6);
      pen.fillStyle = colour("--c0");
      dot(pen, from, 6);
    }
  }
}
/* Doublings forwards (bit 1) or backwards; points are in the order of making. */
function drawTree(pen, colour, from, end, points, forward, share) {
  const count = Math.ceil(Math.min(share / REVEAL, 1) * points.length);
  const sides = [[from], [from]];
  const leaves = [];
  for (let level = 0, made = 0; made < count; level += 1) {
    const side = (forward >> level) & 1;
    const cut = made + 2 ** level > points.length; // it turned back, or diverged, within
    for (let i = 0; i < 2 ** level && made < count; i += 1, made += 1) {
      sides[side].push(points[made]);
      leaves.push([points[made], level, cut]);
    }
  }
  pen.strokeStyle = colour("--soft");
  pen.lineWidth = 1.2;
  sides.forEach((side) => line(pen, side));
  const radius = leaves.length > 20 ? 1.8 : 3;
  leaves.forEach(([point, level, cut]) => {
    pen.fillStyle = pen.strokeStyle = colour(cut ? "--bad" : level % 2 ? "--c4" : "--ink");
    pen.beginPath();
    pen.arc(...point, radius, 0, 7);
    if (cut) pen.stroke();
    else pen.fill();
  });
  pen.fillStyle = pen.strokeStyle = colour("--c0");
  if (share < REVEAL) dot(pen, from, 6);
  else {
    dot(pen, end, 6);
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(...end, 10, 0, 7);
    pen.stroke();
  }
}
function arrow(pen, [x, y], [u, v]) {
  const length = Math.hypot(u - x, v - y);
  if (!(length > 1)) return;
  const [a, b] = [(u - x) / length, (v - y) / length];
  const head = Math.min(9, length);
  line(pen, [[x, y], [u, v]]);
  pen.beginPath();
  pen.moveTo(u, v);
  pen.lineTo(u - head * (a + 0.5 * b), v - head * (b - 0.5 * a));
  pen.lineTo(u - head * (a - 0.5 * b), v - head * (b + 0.5 * a));
  pen.fill();
}
/* Of MALA the drift itself; of noisy gradients -∇U/T, no longer than 1.8 units, and the cloud of the noise. */
function drawGradients(pen, colour, run, draw, to) {
  if (draw < 0 || draw >= run.draws || draw >= run.made(0)) return;
  const at = run.at(0, draw - 1);
  const gradient = run.gradient(draw);
  const step = run.step;
  const tip = (factor, vector) => to(at.map((z, axis) => z - factor * vector[axis]));
  pen.lineWidth = 2.4;
  if (run.about.drift) {
    pen.strokeStyle = pen.fillStyle = colour("--ink");
    arrow(pen, to(at), tip(step * step / 2, gradient));
    return;
  }
  const factor = Math.min(0.3, 1.8 / Math.hypot(...gradient));
  const noisy = (noise) => tip(factor, gradient.map((g, axis) => g + noise[axis]));
  pen.fillStyle = colour("--c1");
  pen.globalAlpha = 0.45;
  for (let i = Math.max(0, draw - 60); i < draw; i += 1) dot(pen, noisy(run.noise(i)), 2);
  pen.globalAlpha = 1;
  pen.strokeStyle = pen.fillStyle = colour("--ink");
  arrow(pen, to(at), tip(factor, gradient));
  pen.strokeStyle = pen.fillStyle = colour("--c1");
  arrow(pen, to(at), noisy(run.noise(draw)));
}
