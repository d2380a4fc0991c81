/* The gallery's numbers: a zlib stream of 16-bit numbers and their differences, as packing.py writes it. */
function bytes(text) { return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)); }
async function unpacked(record) {
  const stream = new Blob([bytes(record.data)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer());
  const found = {};
  let at = 0;
  for (const [name, kind, shape, order] of record.parts) {
    const size = shape.reduce((a, b) => a * b, 1);
    if (kind === "u1") {
      found[name] = raw.subarray(at, at + size);
      at += size;
      continue;
    }
    const values = new Int16Array(size);
    for (let i = 0; i < size; i += 1) {
      const bits = raw[at + i] | (raw[at + size + i] << 8);
      values[i] = order ? (bits >> 1) ^ -(bits & 1) : bits;
    }
    at += 2 * size;
    const length = shape[shape.length - 1];
    for (let turn = 0; turn < order; turn += 1) {
      for (let i = 0; i < size; i += 1) if (i % length) values[i] += values[i - 1];
    }
    found[name] = values;
  }
  if (found.counts) {
    found.offsets = new Int32Array(found.counts.length + 1);
    found.counts.forEach((count, i) => { found.offsets[i + 1] = found.offsets[i] + count; });
  }
  return found;
}
/* Leaves of a tree, stored along the path, in the order in which doublings made them. */
function asMade(count, forward) {
  const sides = [];
  for (let level = 0; sides.length < count; level += 1) {
    for (let i = 0; i < 2 ** level && sides.length < count; i += 1) sides.push((forward >> level) & 1);
  }
  let back = sides.filter((side) => side === 0).length;
  let ahead = back;
  return sides.map((side) => (side ? (ahead += 1) - 1 : back -= 1));
}
/* One run as functions of chain and draw; draw -1 is where a chain began. */
function oneRun(all, about, parts, index) {
  const { chains, draws } = about;
  const number = (values, place, scale) => (!values || values[place] === -32768 ? null : values[place] / scale);
  const vector = (name, draw) => [0, 1].map((axis) => parts[name][(2 * index + axis) * draws + draw] / 16);
  const run = {
    about, chains, draws,
    particles: about.path === "particles",
    made: (chain) => parts.made[index * chains + chain],
    at: (chain, draw) => {
      if (draw < 0 && about.path !== "particles") return all.starts[chain];
      return [0, 1].map((axis) => parts.draws[((index * chains + chain) * 2 + axis) * draws + Math.max(draw, 0)] / all.scale);
    },
    /* Of the first chain, from draw - 1 to draw. */
    points: (draw) => {
      if (!parts.points) return [];
      const place = index * draws + draw;
      const total = parts.offsets[parts.offsets.length - 1];
      const found = [];
      const [begin, end] = [parts.offsets[place], parts.offsets[place + 1]];
      const order = parts.forward ? asMade(end - begin, parts.forward[place]) : null;
      for (let i = begin; i < end; i += 1) {
        const j = order ? begin + order[i - begin] : i;
        found.push([parts.points[j] / all.scale, parts.points[total + j] / all.scale]);
      }
      return found;
    },
    moved: (draw) => (parts.moved ? parts.moved[index * draws + draw] === 1 : null),
    forward: (draw) => (parts.forward ? parts.forward[index * draws + draw] : 0),
    gradient: (draw) => (parts.gradient ? vector("gradient", draw) : null),
    noise: (draw) => (parts.noise ? vector("noise", draw) : null),
    /* What is known after so many draws. */
    known: (count) => {
      let look = -1;
      about.looks.forEach((seen, i) => { if (seen <= count) look = i; });
      const place = index * about.looks.length + look;
      const told = (name, scale) => (look < 0 ? null : number(parts[name], place, scale));
      return {
        rhat: told("rhat", 1000), ess: told("ess", 1), accepted: told("accepted", 1000),
        configurational: told("configurational", 100), kinetic: told("kinetic", 100),
      };
    },
  };
  run.stopped = [];
  for (let chain = 0; chain < chains; chain += 1) if (run.made(chain) < draws) run.stopped.push(chain);
  return run;
}
