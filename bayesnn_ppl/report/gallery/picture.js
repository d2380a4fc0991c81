/* The plane: density, draws, and how the first chain came to the last ones. */
const REVEAL = 0.8; // of a move's time: then it is known whether the proposal is accepted
function chainHue(chain) { return ["--c0", "--c2", "--c3", "--c4"][chain % 4]; }
/* A canvas at the screen's own resolution, and its size in CSS pixels. */
function sized(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { pen, width, height };
}
function cross(pen, x, y, size) {
  pen.beginPath();
  pen.moveTo(x - size, y - size);
  pen.lineTo(x + size, y + size);
  pen.moveTo(x - size, y + size);
  pen.lineTo(x + size, y - size);
  pen.stroke();
}
/* The density in bands, exp(-U/(2T)) of its highest value, in the colours of the theme. */
function backdrop(all, levels, target, temperature, colour) {
  const [grid, side, bands] = [all.grid, 2 * all.grid, 9];
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (variable) => {
    probe.fillStyle = colour(variable);
    probe.fillRect(0, 0, 1, 1);
    return probe.getImageData(0, 0, 1, 1).data;
  };
  const [paper, ink] = [rgb("--paper"), rgb("--soft")];
  const image = new ImageData(side, side);
  const at = (row, column) => levels[(target * grid + Math.min(row, grid - 1)) * grid + Math.min(column, grid - 1)];
  for (let i = 0; i < side * side; i += 1) {
    const [r, c] = [Math.floor(i / side) * (grid - 1) / (side - 1), (i % side) * (grid - 1) / (side - 1)];
    const [r0, c0] = [Math.floor(r), Math.floor(c)];
    const [p, q] = [r - r0, c - c0];
    const level = (1 - p) * ((1 - q) * at(r0, c0) + q * at(r0, c0 + 1)) + p * ((1 - q) * at(r0 + 1, c0) + q * at(r0 + 1, c0 + 1));
    const share = 0.55 * Math.ceil(bands * (level / 255) ** (4 / temperature) - 0.35) / bands;
    for (let k = 0; k < 3; k += 1) image.data[4 * i + k] = paper[k] + share * (ink[k] - paper[k]);
    image.data[4 * i + 3] = 255;
  }
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
function drawPlane(canvas, view) {
  const { all, run, density, exact, colour, count, share } = view;
  const { pen, width, height } = sized(canvas);
  const high = width < 430 ? 44 : 70;
  const box = { left: 34, top: high, high, side: Math.min(width - 34 - high, height - 34 - high) };
  const to = ([x, y]) => [box.left + box.side * (x / all.reach + 1) / 2, box.top + box.side * (1 - (y / all.reach + 1) / 2)];
  pen.fillStyle = colour("--paper");
  pen.fillRect(0, 0, width, height);
  drawAxes(pen, colour, box, all.reach, to);
  drawMarginals(pen, colour, run, count, box, all.reach, exact);
  pen.save();
  pen.beginPath();
  pen.rect(box.left, box.top, box.side, box.side);
  pen.clip();
  pen.imageSmoothingEnabled = true;
  pen.drawImage(density, box.left, box.top, box.side, box.side);
  for (let chain = run.chains - 1; chain >= 0; chain -= 1) {
    pen.fillStyle = colour(chainHue(chain));
    pen.globalAlpha = run.particles ? 0 : chain ? 0.4 : 0.75;
    const until = Math.min(count, run.made(chain));
    for (let i = 0; i < until; i += 1) dot(pen, to(run.at(chain, i)), chain ? 1.8 : 2.6);
  }
  pen.globalAlpha = 1;
  if (run.particles) drawParticles(pen, colour, run, count, to);
  else {
    drawRejected(pen, colour, run, count, to);
    const now = share < 1 ? count : count - 1; // the move that is shown last
    for (let back = 3; back > 0; back -= 1) {
      pen.globalAlpha = 0.4 - 0.1 * back;
      if (now - back >= 0) drawMove(pen, colour, run, now - back, 1, to);
    }
    pen.globalAlpha = 1;
    drawMove(pen, colour, run, now, share, to);
    if (run.gradient(0)) drawGradients(pen, colour, run, now, to);
  }
  for (const chain of run.stopped) {
    if (run.made(chain) > count) continue;
    const [x, y] = to(run.at(chain, run.made(chain) - 1)).map((v, axis) => {
      const begin = axis ? box.top : box.left;
      return Math.max(begin + 10, Math.min(begin + box.side - 10, v));
    });
    pen.strokeStyle = colour("--bad");
    pen.lineWidth = 3;
    cross(pen, x, y, 6);
    pen.strokeRect(x - 9, y - 9, 18, 18);
  }
  pen.restore();
}
function drawAxes(pen, colour, box, reach, to) {
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = colour("--soft");
  pen.strokeStyle = colour("--soft");
  pen.lineWidth = 1;
  const end = [box.left + box.side, box.top + box.side];
  for (const tick of [-4, -2, 0, 2, 4]) {
    const [x, y] = to([tick, tick]);
    const words = String(tick).replace("-", "−");
    pen.textAlign = "center";
    pen.textBaseline = "top";
    pen.fillText(words, x, end[1] + 6);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(words, box.left - 6, y);
    pen.beginPath();
    pen.moveTo(x, end[1]);
    pen.lineTo(x, end[1] + 4);
    pen.moveTo(box.left, y);
    pen.lineTo(box.left - 4, y);
    pen.stroke();
  }
  pen.strokeRect(box.left - 0.5, box.top - 0.5, box.side + 1, box.side + 1);
  pen.textAlign = "center";
  pen.textBaseline = "top";
  pen.fillText("first coordinate", box.left + box.side / 2, end[1] + 20);
  pen.save();
  pen.translate(9, box.top + box.side / 2);
  pen.rotate(-Math.PI / 2);
  pen.textBaseline = "middle";
  pen.fillText("second coordinate", 0, 0);
  pen.restore();
}
function dot(pen, [x, y], radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.fill();
}
function line(pen, points, dashes) {
  pen.setLineDash(dashes || []);
  pen.beginPath();
  points.forEach((point) => pen.lineTo(...point));
  pen.stroke();
  pen.setLineDash([]);
}
function drawParticles(pen, colour, run, count, to) {
  for (let chain = 0; chain < run.chains; chain += 1) {
    pen.strokeStyle = pen.fillStyle = colour("--c0");
    pen.lineWidth = 1.4;
    pen.globalAlpha = 0.5;
    const way = [];
    for (let i = Math.max(0, count - 25); i < count; i += 1) way.push(to(run.at(chain, i)));
    line(pen, way);
    pen.globalAlpha = 1;
    if (count) dot(pen, to(run.at(chain, count - 1)), 5);
  }
}
/* Crosses where the last proposals were rejected. */
function drawRejected(pen, colour, run, count, to) {
  pen.strokeStyle = colour("--bad");
  pen.lineWidth = 1.2;
  for (let i = Math.max(0, count - 40); i < count; i += 1) {
    if (run.moved(i) !== false) continue;
    pen.globalAlpha = 0.25 + 0.6 * (1 - (count - i) / 40);
    const points = run.points(i);
    if (points.length) cross(pen, ...to(points[points.length - 1]), 3.5);
  }
  pen.globalAlpha = 1;
}
