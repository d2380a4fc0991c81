/* Marginals beside the plane (bars: all draws so far; line: exact), and the traces below it. */
const BINS = 40;
function histogram(run, count, axis, reach) {
  const bins = new Float64Array(BINS);
  let total = 0;
  for (let chain = 0; chain < run.chains; chain += 1) {
    const until = Math.min(count, run.made(chain));
    for (let i = run.particles ? Math.max(0, until - 1) : 0; i < until; i += 1) {
      const bin = Math.floor(BINS * (run.at(chain, i)[axis] / reach + 1) / 2);
      if (bin >= 0 && bin < BINS) bins[bin] += 1;
      total += 1;
    }
  }
  const width = 2 * reach / BINS;
  return bins.map((n) => (total ? n / (total * width) : 0));
}
/* `box` has left, top, side, and high, the room for the taller direction. */
function drawMarginals(pen, colour, run, count, box, reach, exact) {
  for (const axis of [0, 1]) {
    const most = 1.35 * exact.peaks[axis];
    const bars = histogram(run, count, axis, reach);
    const place = (share, height) => {
      const high = Math.min(height / most, 1) * (box.high - 6);
      return axis === 0 ? [box.left + share * box.side, box.top - 4 - high] : [box.left + box.side + 4 + high, box.top + (1 - share) * box.side];
    };
    pen.fillStyle = colour("--c0");
    pen.globalAlpha = 0.45;
    bars.forEach((height, bin) => {
      const [a, b] = [place(bin / BINS, 0), place((bin + 1) / BINS, height)];
      pen.fillRect(Math.min(a[0], b[0]), Math.min(a[1], b[1]), Math.abs(a[0] - b[0]), Math.abs(a[1] - b[1]));
    });
    pen.globalAlpha = 1;
    pen.strokeStyle = colour("--ink");
    pen.lineWidth = 1.5;
    pen.beginPath();
    const curve = exact.curve(axis);
    curve.forEach((height, i) => pen.lineTo(...place(i / (curve.length - 1), height * exact.peaks[axis])));
    pen.stroke();
  }
}
const TRACES = ["first", "second"];
function drawTraces(canvas, colour, run, count, reach) {
  const { pen, width, height } = sized(canvas);
  const [left, bottom, gap] = [34, 30, 8];
  const high = (height - bottom - 2 * gap) / 2;
  const wide = width - left - 8;
  pen.fillStyle = colour("--paper");
  pen.fillRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  TRACES.forEach((name, axis) => {
    const top = gap + axis * (high + gap);
    const y = (value) => top + high * (1 - (value / reach + 1) / 2);
    pen.fillStyle = colour("--soft");
    pen.strokeStyle = colour("--line");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const tick of [-4, 0, 4]) {
      pen.fillText(String(tick).replace("-", "−"), left - 6, y(tick));
      pen.beginPath();
      pen.moveTo(left, y(tick));
      pen.lineTo(left + wide, y(tick));
      pen.stroke();
    }
    pen.strokeRect(left, top, wide, high);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, wide, high);
    pen.clip();
    for (let chain = run.chains - 1; chain >= 0; chain -= 1) {
      pen.strokeStyle = colour(chainHue(chain));
      pen.globalAlpha = run.particles ? 0.35 : chain ? 0.55 : 1;
      pen.lineWidth = chain || run.particles ? 1 : 1.6;
      pen.beginPath();
      const until = Math.min(count, run.made(chain));
      for (let i = 0; i < until; i += 1) pen.lineTo(left + wide * (i + 0.5) / run.draws, y(run.at(chain, i)[axis]));
      pen.stroke();
      if (until < count) cross(pen, left + wide * (until + 0.5) / run.draws, Math.max(top + 5, Math.min(top + high - 5, y(run.at(chain, until - 1)[axis]))), 4);
    }
    pen.restore();
    pen.textAlign = "right";
    pen.textBaseline = "top";
    const words = `${name} coordinate`;
    pen.fillStyle = colour("--paper");
    pen.fillRect(left + wide - 9 - pen.measureText(words).width, top + 2, pen.measureText(words).width + 8, 15);
    pen.fillStyle = colour("--soft");
    pen.fillText(words, left + wide - 5, top + 3);
  });
  pen.textBaseline = "alphabetic";
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    pen.textAlign = share === 1 ? "right" : share ? "center" : "left";
    pen.fillText(String(Math.max(1, Math.round(share * run.draws))), left + share * wide, height - 14);
  }
  pen.textAlign = "center";
  pen.fillText("draw", left + 0.375 * wide, height - 14);
}
