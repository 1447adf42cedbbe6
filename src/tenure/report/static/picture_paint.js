"use strict";
/* The pixels of the picture: bars of accounts over lanes, hatched where interruptible, red where preempted.
   `raster.py` paints the same for files. */
const PicturePaint = (function () { // eslint-disable-line no-unused-vars
  /* A column as `picture_data.py` packs it. */
  function unpacked(type, text) {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new ({ u1: Uint8Array, u2: Uint16Array, u4: Uint32Array }[type])(bytes.buffer);
  }

  function rgb(text) {
    const n = parseInt(text.slice(1), 16);
    return text.length === 4 ? [((n >> 8) & 15) * 17, ((n >> 4) & 15) * 17, (n & 15) * 17]
      : [(n >> 16) & 255, (n >> 8) & 255, n & 255];
  }
  const pack = (p) => (255 << 24 | p[2] << 16 | p[1] << 8 | p[0]) >>> 0;
  const mix = (p, q, part) => p.map((v, i) => Math.round(v * part + q[i] * (1 - part)));

  /* Paint what of `picture` {data, c, colours, lit} is `seen` {t0, t1, v0, v1} into an image; `scale`: device pixels
     to one of the page. */
  function paint(into, seen, scale, picture) {
    const { data, c, colours, lit } = picture, { width: w, height: h } = into, lane0 = data.lane0;
    const PREEMPTED = data.words.end.indexOf("preempted");
    const px = new Uint32Array(into.data.buffer);
    px.fill(colours.paper);
    const kx = w / (seen.t1 - seen.t0), ky = h / (seen.v1 - seen.v0);
    const period = Math.max(4, Math.round(6 * scale)), dark = Math.max(2, Math.round(period * 0.5));
    const gap = ky >= 6 * scale ? Math.round(scale) : 0;
    function box(x0, x1, y0, y1, colour) {
      x0 = Math.max(0, x0); x1 = Math.min(w, x1); y0 = Math.max(0, y0); y1 = Math.min(h, y1);
      for (let y = y0; y < y1; y++) px.fill(colour, y * w + x0, y * w + Math.max(x0, x1));
    }
    for (const [node, start, end, state] of data.outages) {
      box(Math.floor((start - seen.t0) * kx), Math.floor((end - seen.t0) * kx) + 1,
        Math.round((lane0[node] - seen.v0) * ky), Math.round((lane0[node + 1] - seen.v0) * ky),
        data.words.node[state] === "draining" ? colours.draining : colours.down);
    }
    for (let b = 0; b < c.bar_attempt.length; b++) {
      const a = c.bar_attempt[b], start = c.start[a], end = c.end[a];
      if (end < seen.t0 || start > seen.t1) continue;
      const y0 = Math.round((c.bar_lane[b] - seen.v0) * ky);
      let y1 = Math.round((c.bar_lane[b] + c.bar_lanes[b] - seen.v0) * ky);
      if (y1 <= 0 || y0 >= h || y1 === y0) continue;
      if (y1 - y0 > 2 * gap) y1 -= gap;
      const x0 = Math.floor((start - seen.t0) * kx);
      let x1 = Math.floor((end - seen.t0) * kx);
      if (x1 <= x0) x1 = x0 + 1;
      const account = c.job_account[c.job[a]], solid = colours.solid[account], hatch = colours.hatch[account];
      const from = Math.min(x1, Math.max(x0, Math.floor((c.protected[a] - seen.t0) * kx)));
      box(x0, from, y0, y1, solid);
      const h0 = Math.max(0, from), h1 = Math.min(w, x1), ya = Math.max(0, y0), yb = Math.min(h, y1);
      for (let y = ya; y < yb; y++) {
        let phase = (h0 + y) % period;
        for (let x = h0, at = y * w + h0; x < h1; x++, at++) {
          px[at] = phase < dark ? solid : hatch;
          if (++phase === period) phase = 0;
        }
      }
      if (x1 - x0 >= 4 * scale) box(x0, x0 + Math.round(scale), y0, y1, colours.edge[account]);
      if (c.ended[a] === PREEMPTED && x1 - x0 > 1) { // from afar a hair, so that red does not drown the rest
        const wide = Math.max(1, Math.min(Math.round(2.5 * scale), Math.round(900 * kx), x1 - x0));
        box(x1 - wide, x1, y0, y1, lit >= 0 && lit !== account ? colours.redFaded : colours.red);
      }
    }
  }

  return { unpacked, rgb, pack, mix, paint };
})();
