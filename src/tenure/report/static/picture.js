"use strict";
/* global PicturePaint */
/* The cluster as a picture: time across, a lane a GPU down. Bars are painted pixel by pixel into one image,
   so that a month of 1,024 GPUs moves smoothly; text, marks and axes go over it. */
(function () {
  const root = document.getElementById("picture");
  const source = document.getElementById("picture-data");
  if (!root || !source) return;
  const data = JSON.parse(source.textContent);
  const canvas = root.querySelector("canvas.main"), map = root.querySelector("canvas.map");
  const ctx = canvas.getContext("2d"), mapCtx = map.getContext("2d");
  const { unpacked, rgb, pack, mix } = PicturePaint;
  const tip = root.querySelector(".tip"), spoken = root.querySelector(".spoken");
  const NEVER = 0xffffffff, PREEMPTED = data.words.end.indexOf("preempted");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  const c = {};
  for (const name in data.columns) c[name] = unpacked(...data.columns[name]);
  const lane0 = data.lane0, lanes = lane0[lane0.length - 1], nBars = c.bar_attempt.length;
  const stopOf = new Map(), promiseOf = new Map();
  c.stop_attempt.forEach((a, i) => stopOf.set(a, i));
  c.promise_attempt.forEach((a, i) => promiseOf.set(a, i));
  const barsOf = new Map(); // only of attempts with a promise: their marks span their bars
  for (let b = 0; b < nBars; b++) {
    const a = c.bar_attempt[b];
    if (promiseOf.has(a)) (barsOf.get(a) || barsOf.set(a, []).get(a)).push(b);
  }

  const full = { t0: 0, t1: Math.max(1, data.until_s), v0: 0, v1: lanes };
  let view = { ...full }, lit = -1, found = -1, chosen = -1, colours = {}, gutter = 92, dpr = 1, W = 1, H = 1;
  const FOOT = 22;

  /* ---- colours -------------------------------------------------------------------------------- */
  function css(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  function readColours() {
    const paper = rgb(css("--plot")), ink = css("--ink"), red = rgb(css("--red")), grey = rgb(css("--down"));
    const solid = [], hatch = [], edge = [];
    data.accounts.forEach((account, i) => {
      const own = rgb(account.colour), part = lit >= 0 && lit !== i ? 0.13 : 1;
      solid.push(pack(mix(own, paper, part)));
      hatch.push(pack(mix(own, paper, part * 0.45)));
      edge.push(pack(mix(own, paper, part * 0.6)));
    });
    colours = { paper: pack(paper), ink, soft: css("--soft"), faint: css("--line"), red: pack(red),
      redFaded: pack(mix(red, paper, 0.2)), down: pack(grey), draining: pack(mix(grey, paper, 0.35)),
      text: css("--paper"), solid, hatch, edge };
  }

  const X = (t) => gutter + (t - view.t0) / (view.t1 - view.t0) * (W - gutter);
  const Y = (v) => (v - view.v0) / (view.v1 - view.v0) * (H - FOOT);

  function draw() {
    const w = Math.max(1, Math.round((W - gutter) * dpr)), h = Math.max(1, Math.round((H - FOOT) * dpr));
    const image = ctx.createImageData(w, h);
    PicturePaint.paint(image, view, dpr, { data, c, colours, lit });
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, canvas.width, canvas.height);
    ctx.putImageData(image, Math.round(gutter * dpr), 0);
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    drawNodes();
    drawTimes();
    drawPromises();
    drawNames();
    drawChosen();
    drawMapWindow();
  }

  function drawNodes() {
    const tall = Y(lane0[1]) - Y(0);
    const every = Math.max(1, Math.ceil(13 / Math.max(tall, 0.01)));
    ctx.textAlign = "right";
    for (let n = 0; n < lane0.length - 1; n++) {
      const top = Y(lane0[n]), bottom = Y(lane0[n + 1]);
      if (bottom < 0 || top > H - FOOT) continue;
      if (tall >= 14) { ctx.fillStyle = colours.faint; ctx.fillRect(gutter, top - 0.5, W - gutter, 1); }
      const first = n === 0 || data.node_cluster[n] !== data.node_cluster[n - 1];
      if (first && data.clusters.length > 1) {
        ctx.fillStyle = colours.ink; ctx.fillRect(0, top - 0.5, W, 1);
      }
      if (n % every === 0 && (top + bottom) / 2 > 6 && (top + bottom) / 2 < H - FOOT - 5) {
        ctx.fillStyle = colours.soft;
        ctx.fillText(short(data.nodes[n], Math.floor((gutter - 8) / 6)), gutter - 6, (top + bottom) / 2);
      }
    }
  }
  const short = (text, most) => (text.length <= most ? text : "…" + text.slice(text.length - most + 1));

  function stepOf(span, most) {
    const steps = [60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 604800, 1209600, 2592000];
    return steps.find((s) => span / s <= most) || Math.ceil(span / most / 86400) * 86400;
  }
  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  function timeText(t, step) {
    if (data.start_ms === null) {
      if (step >= 86400) return "day " + t / 86400;
      const day = Math.floor(t / 86400), h = Math.floor(t % 86400 / 3600), m = Math.floor(t % 3600 / 60);
      return (h || m || step === 0 ? "" : "day " + day) || `${step === 0 ? "day " + day + " " : ""}${pad(h)}:${pad(m)}`;
    }
    const at = new Date(data.start_ms + t * 1000), day = `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
    const clock = `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}`;
    if (step === 0) return `${day} ${clock}`;
    return step >= 86400 || clock === "00:00" ? day : clock;
  }
  const pad = (n) => String(n).padStart(2, "0");

  function drawTimes() {
    const step = stepOf(view.t1 - view.t0, Math.max(2, (W - gutter) / 84));
    ctx.textAlign = "center";
    for (let t = Math.ceil(view.t0 / step) * step; t <= view.t1; t += step) {
      const x = X(t);
      ctx.fillStyle = colours.faint; ctx.fillRect(x - 0.5, H - FOOT, 1, 4);
      ctx.fillStyle = colours.soft;
      if (x > gutter + 16 && x < W - 18) ctx.fillText(timeText(t, step), x, H - FOOT / 2 + 2);
    }
    if (step < 86400) { // clocks alone would leave open which day it is
      ctx.textAlign = "right"; ctx.fillStyle = colours.ink;
      ctx.fillText(timeText(view.t0, 0).replace(/ \d\d:\d\d$/, ""), gutter - 6, H - FOOT / 2 + 2);
    }
    if (data.warmup_s > view.t0) {
      const x = Math.min(W, X(data.warmup_s));
      ctx.fillStyle = colours.ink; ctx.globalAlpha = 0.08; ctx.fillRect(gutter, 0, x - gutter, H - FOOT); ctx.globalAlpha = 1;
      if (data.warmup_s <= view.t1) {
        ctx.strokeStyle = colours.ink; ctx.setLineDash([3, 3]); line(x, 0, x, H - FOOT); ctx.setLineDash([]);
      }
      if (x - gutter > 70) tag("warm-up: not measured", gutter + 6, 10, x - gutter - 12);
    }
  }
  function tag(text, x, y, room) {
    if (ctx.measureText(text).width > room) text = "warm-up";
    ctx.textAlign = "left";
    const wide = ctx.measureText(text).width;
    ctx.fillStyle = css("--paper"); ctx.globalAlpha = 0.85; ctx.fillRect(x - 3, y - 8, wide + 6, 16); ctx.globalAlpha = 1;
    ctx.fillStyle = colours.ink; ctx.fillText(text, x, y);
  }
  function line(x0, y0, x1, y1) { ctx.beginPath(); ctx.moveTo(x0, y0); ctx.lineTo(x1, y1); ctx.stroke(); }

  function clipped(body) {
    ctx.save(); ctx.beginPath(); ctx.rect(gutter, 0, W - gutter, H - FOOT); ctx.clip(); body(); ctx.restore();
  }
  /* A promise: a line from when it was given to the instant promised, and a diamond there, on the gang's lanes. */
  function drawPromises() {
    clipped(() => {
      for (const [a, i] of promiseOf) {
        const x0 = X(c.promise_planned[i]), x1 = X(c.promise_at[i]);
        if (x1 < gutter - 8 || x0 > W) continue;
        if (lit >= 0 && c.job_account[c.job[a]] !== lit) continue;
        if (x1 - x0 < 8) continue; // too small from here to be told from its neighbours
        let first = true;
        for (const [v0, v1] of spans(barsOf.get(a) || [])) {
          const y0 = Y(v0), y1 = Y(v1), y = (y0 + y1) / 2;
          if (y1 < 0 || y0 > H - FOOT || y1 - y0 < 2) continue;
          ctx.strokeStyle = colours.ink; ctx.lineWidth = 1; ctx.setLineDash([2, 2]); line(x0, y, x1, y); ctx.setLineDash([]);
          line(x1, y0 + 0.5, x1, y1 - 0.5);
          if (!first || y1 - y0 < 6) continue;
          first = false;
          ctx.fillStyle = colours.ink; ctx.beginPath();
          ctx.moveTo(x1, y - 4); ctx.lineTo(x1 + 4, y); ctx.lineTo(x1, y + 4); ctx.lineTo(x1 - 4, y); ctx.fill();
        }
      }
    });
  }
  function spans(bars) {
    const parts = bars.map((b) => [c.bar_lane[b], c.bar_lane[b] + c.bar_lanes[b]]).sort((p, q) => p[0] - q[0]);
    const joined = [];
    for (const part of parts) {
      const last = joined[joined.length - 1];
      if (last && last[1] === part[0]) last[1] = part[1]; else joined.push(part);
    }
    return joined.sort((p, q) => q[1] - q[0] - (p[1] - p[0])); // the largest first: it carries the diamond
  }
  function drawNames() {
    if (Y(view.v0 + 1) < 11) return;
    clipped(() => {
      ctx.textAlign = "left";
      for (let b = 0; b < nBars; b++) {
        const a = c.bar_attempt[b];
        if (c.end[a] < view.t0 || c.start[a] > view.t1) continue;
        const y0 = Y(c.bar_lane[b]), y1 = Y(c.bar_lane[b] + c.bar_lanes[b]);
        if (y1 < 0 || y0 > H) continue;
        const x0 = Math.max(gutter, X(c.start[a])), x1 = Math.min(W, X(c.end[a]));
        if (x1 - x0 < 46) continue;
        const most = Math.floor((x1 - x0 - 8) / 6.2), name = data.jobs[c.job[a]];
        const text = name.length <= most ? name : name.slice(0, most - 1) + "…";
        const wide = ctx.measureText(text).width;
        ctx.fillStyle = css("--paper"); ctx.globalAlpha = 0.72;
        ctx.fillRect(x0 + 3, (y0 + y1) / 2 - 6, wide + 4, 12); ctx.globalAlpha = 1;
        ctx.fillStyle = colours.ink; ctx.fillText(text, x0 + 5, (y0 + y1) / 2);
      }
    });
  }
  function drawChosen() {
    clipped(() => {
      for (let b = 0; b < nBars; b++) {
        const a = c.bar_attempt[b];
        if (a !== chosen && (found < 0 || c.job[a] !== found)) continue;
        const x0 = X(c.start[a]), x1 = Math.max(x0 + 1, X(c.end[a])), y0 = Y(c.bar_lane[b]);
        ctx.lineWidth = a === chosen ? 2 : 1.5; ctx.strokeStyle = colours.ink;
        ctx.strokeRect(x0 - 1, y0 - 1, x1 - x0 + 2, Math.max(2, Y(c.bar_lane[b] + c.bar_lanes[b]) - y0 + 1));
      }
    });
  }

  let mapImage = null;
  function drawMap() {
    const w = Math.max(1, Math.round((W - gutter) * dpr)), h = Math.max(1, Math.round(44 * dpr));
    map.width = Math.round(W * dpr); map.height = h;
    mapImage = mapCtx.createImageData(w, h);
    PicturePaint.paint(mapImage, full, dpr, { data, c, colours, lit });
    drawMapWindow();
  }
  function drawMapWindow() {
    if (!mapImage) return;
    mapCtx.setTransform(1, 0, 0, 1, 0, 0);
    mapCtx.clearRect(0, 0, map.width, map.height);
    mapCtx.putImageData(mapImage, Math.round(gutter * dpr), 0);
    mapCtx.setTransform(dpr, 0, 0, dpr, 0, 0);
    const x = (t) => gutter + t / full.t1 * (W - gutter), y = (v) => v / lanes * 44;
    mapCtx.fillStyle = css("--paper"); mapCtx.globalAlpha = 0.6;
    mapCtx.fillRect(gutter, 0, x(view.t0) - gutter, 44); mapCtx.fillRect(x(view.t1), 0, W - x(view.t1), 44);
    mapCtx.fillRect(x(view.t0), 0, x(view.t1) - x(view.t0), y(view.v0));
    mapCtx.fillRect(x(view.t0), y(view.v1), x(view.t1) - x(view.t0), 44 - y(view.v1));
    mapCtx.globalAlpha = 1; mapCtx.lineWidth = 1.5; mapCtx.strokeStyle = colours.ink;
    mapCtx.strokeRect(x(view.t0) + 0.75, y(view.v0) + 0.75, Math.max(2, x(view.t1) - x(view.t0) - 1.5),
      Math.max(2, y(view.v1) - y(view.v0) - 1.5));
    mapCtx.fillStyle = colours.soft; mapCtx.font = "11px system-ui, sans-serif"; mapCtx.textAlign = "right";
    mapCtx.textBaseline = "middle"; mapCtx.fillText("overview", gutter - 6, 22);
  }

  /* ---- moving --------------------------------------------------------------------------------- */
  let queued = false;
  function redraw() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => { queued = false; draw(); });
  }
  function bounded(v) {
    const span = Math.min(full.t1, Math.max(120, v.t1 - v.t0)), tall = Math.min(lanes, Math.max(Math.min(4, lanes), v.v1 - v.v0));
    const t0 = Math.min(Math.max(0, v.t0), full.t1 - span), v0 = Math.min(Math.max(0, v.v0), lanes - tall);
    return { t0, t1: t0 + span, v0, v1: v0 + tall };
  }
  function go(next, smooth) {
    next = bounded(next);
    hideTip();
    if (!smooth || calm.matches) { view = next; redraw(); return; }
    const from = { ...view }, began = performance.now();
    (function frame(now) {
      const part = Math.min(1, (now - began) / 160), ease = part * (2 - part);
      for (const k of ["t0", "t1", "v0", "v1"]) view[k] = from[k] + (next[k] - from[k]) * ease;
      draw();
      if (part < 1) requestAnimationFrame(frame);
    })(began);
  }
  function zoom(factor, t, v, alsoLanes) {
    const k = alsoLanes ? factor : 1;
    return { t0: t - (t - view.t0) * factor, t1: t + (view.t1 - t) * factor, v0: v - (v - view.v0) * k, v1: v + (view.v1 - v) * k };
  }
  function shift(dt, dv) {
    const a = dt * (view.t1 - view.t0), b = dv * (view.v1 - view.v0);
    return { t0: view.t0 + a, t1: view.t1 + a, v0: view.v0 + b, v1: view.v1 + b };
  }
  function at(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return { x, y, t: view.t0 + (x - gutter) / (W - gutter) * (view.t1 - view.t0),
      v: view.v0 + y / (H - FOOT) * (view.v1 - view.v0) };
  }

  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return; // let the page scroll
    event.preventDefault();
    const p = at(event);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      go(shift((event.deltaX || event.deltaY) / 800, 0));
    } else go(zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.004), p.t, p.v, !event.altKey));
  }, { passive: false });

  const fingers = new Map();
  let dragged = false;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    dragged = false;
    if (event.pointerType === "mouse") canvas.focus({ preventScroll: true });
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) { showTip(event); return; }
    const dx = event.clientX - before[0], dy = event.clientY - before[1];
    if (Math.abs(dx) + Math.abs(dy) > 3) dragged = true;
    if (!dragged) return;
    if (fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const was = Math.hypot(before[0] - other[0], before[1] - other[1]);
      const is = Math.hypot(event.clientX - other[0], event.clientY - other[1]);
      const p = at({ clientX: (event.clientX + other[0]) / 2, clientY: (event.clientY + other[1]) / 2 });
      if (is > 0) go(zoom(was / is, p.t, p.v, true));
    } else go(shift(-dx / (W - gutter), event.pointerType === "touch" ? 0 : -dy / (H - FOOT)));
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => {
      fingers.delete(event.pointerId);
      if (name === "pointerup" && !dragged) { const b = barAt(at(event)); choose(b < 0 ? -1 : c.bar_attempt[b]); showTip(event); }
    });
  }
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("dblclick", (event) => { const p = at(event); go(zoom(0.4, p.t, p.v, true), true); });

  let mapped = false;
  function mapTo(event) {
    const box = map.getBoundingClientRect(), half = (view.t1 - view.t0) / 2, tall = (view.v1 - view.v0) / 2;
    const t = (event.clientX - box.left - gutter) / (W - gutter) * full.t1, v = (event.clientY - box.top) / 44 * lanes;
    go({ t0: t - half, t1: t + half, v0: v - tall, v1: v + tall });
  }
  map.addEventListener("pointerdown", (event) => { mapped = true; map.setPointerCapture(event.pointerId); mapTo(event); });
  map.addEventListener("pointermove", (event) => { if (mapped) mapTo(event); });
  map.addEventListener("pointerup", () => { mapped = false; });

  const middle = () => [(view.t0 + view.t1) / 2, (view.v0 + view.v1) / 2];
  const moves = {
    ArrowLeft: () => shift(-0.2, 0), ArrowRight: () => shift(0.2, 0), ArrowUp: () => shift(0, -0.2), ArrowDown: () => shift(0, 0.2),
    PageUp: () => shift(0, -0.9), PageDown: () => shift(0, 0.9), Home: () => full,
    "+": () => zoom(0.6, ...middle(), true), "=": () => zoom(0.6, ...middle(), true), "-": () => zoom(1 / 0.6, ...middle(), true),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) { event.preventDefault(); go(moves[event.key](), true); return; }
    if (event.key === "n" || event.key === "p") step(event.key === "n" ? 1 : -1, () => true);
    if (event.key === "s" || event.key === "S") step(event.key === "s" ? 1 : -1, (a) => c.ended[a] === PREEMPTED);
    if (event.key === "Escape") { choose(-1); hideTip(); }
  });
  /* The next attempt by start that `fits`; brought into view and read out. */
  function step(by, fits) {
    let a = chosen < 0 ? (by > 0 ? -1 : c.start.length) : chosen;
    do a += by; while (a >= 0 && a < c.start.length && !(fits(a) && (lit < 0 || c.job_account[c.job[a]] === lit)));
    if (a >= 0 && a < c.start.length) { choose(a); reveal(a); }
  }
  function reveal(a) {
    const b = c.bar_attempt.indexOf(a);
    if (b < 0) return;
    const span = view.t1 - view.t0, tall = view.v1 - view.v0, t = c.start[a], v = c.bar_lane[b];
    if (t < view.t0 || t > view.t1 || v < view.v0 || v > view.v1) {
      go({ t0: t - span / 3, t1: t + span * 2 / 3, v0: v - tall / 2, v1: v + tall / 2 });
    }
  }
  function choose(a) {
    chosen = a;
    spoken.textContent = a < 0 ? "" : tell(a).map(([name, value]) => `${name} ${value}`).join(", ");
    redraw();
  }

  /* ---- telling -------------------------------------------------------------------------------- */
  function barAt(p) {
    if (p.x < gutter || p.y > H - FOOT) return -1;
    const slack = (view.t1 - view.t0) / (W - gutter);
    let near = -1;
    for (let b = nBars - 1; b >= 0; b--) {
      const lane = c.bar_lane[b];
      if (p.v < lane || p.v >= lane + c.bar_lanes[b]) continue;
      const a = c.bar_attempt[b];
      if (c.start[a] <= p.t && p.t < c.end[a]) return b;
      if (c.start[a] - slack <= p.t && p.t < c.end[a] + slack) near = b;
    }
    return near;
  }
  function span(s) {
    if (s < 90) return `${s} s`;
    if (s < 3600) return `${+(s / 60).toPrecision(2)} min`;
    if (s < 172800) return `${+(s / 3600).toPrecision(3)} h`;
    return `${+(s / 86400).toPrecision(3)} days`;
  }
  function tell(a) {
    const job = c.job[a], words = data.words, rows = [["job", data.jobs[job]], ["account", data.accounts[c.job_account[job]].path],
      ["GPUs", String(c.job_gpus[job])], ["attempt", String(c.attempt[a])],
      ["ran", `${timeText(c.start[a], 0)} to ${timeText(c.end[a], 0)} (${span(c.end[a] - c.start[a])})`]];
    if (c.unbudgeted[a]) rows.push(["protection", "none: unbudgeted"]);
    else rows.push(["protection", `until ${timeText(c.protected[a], 0)} (${span(c.protected[a] - c.start[a])})`]);
    rows.push(["started", words.rule[c.started_by[a]] || "–"]);
    const promise = promiseOf.get(a);
    if (promise !== undefined) {
      rows.push(["promise", `given ${timeText(c.promise_planned[promise], 0)} for ${timeText(c.promise_at[promise], 0)}`]);
    }
    let ended = c.ended[a] === 0 ? "still running at the end" : words.end[c.ended[a]];
    const stop = stopOf.get(a);
    if (stop !== undefined) {
      const by = c.stop_by[stop], rule = words.rule[c.stop_rule[stop]];
      if (words.cause[c.stop_cause[stop]] !== words.end[c.ended[a]]) ended += ` (${words.cause[c.stop_cause[stop]]})`;
      if (rule && rule !== "none") ended += `, by rule ${rule}`;
      if (by !== NEVER) ended += `, for ${data.jobs[by]} of ${data.accounts[c.job_account[by]].path}`;
    }
    rows.push(["ended", ended]);
    if (stop !== undefined && c.stop_lost[stop]) rows.push(["lost", `${+(c.stop_lost[stop] / 3600).toPrecision(3)} GPU-h`]);
    return rows;
  }
  function outageAt(p) {
    const node = lane0.findIndex((v, n) => p.v >= v && p.v < lane0[n + 1]);
    const one = data.outages.find(([n, start, end]) => n === node && start <= p.t && p.t < end);
    return [["node", data.nodes[node] || ""], ["GPU", String(Math.floor(p.v) - (lane0[node] || 0))], ["at", timeText(p.t, 0)],
      ["state", one ? data.words.node[one[3]] : "idle"]];
  }
  function showTip(event) {
    const p = at(event);
    if (p.x < gutter || p.y > H - FOOT || p.y < 0) { hideTip(); return; }
    const b = barAt(p), rows = b < 0 ? outageAt(p) : tell(c.bar_attempt[b]);
    tip.replaceChildren(...rows.map(([name, value]) => {
      const row = document.createElement("div"), key = document.createElement("span");
      key.textContent = name; row.append(key, document.createTextNode(value));
      return row;
    }));
    tip.hidden = false;
    const wide = tip.offsetWidth, tall = tip.offsetHeight;
    tip.style.left = Math.max(0, p.x + 16 + wide > W ? p.x - wide - 12 : p.x + 16) + "px";
    tip.style.top = Math.max(0, Math.min(p.y + 14, H - tall)) + canvas.offsetTop + "px";
  }
  function hideTip() { tip.hidden = true; }

  /* ---- around it ------------------------------------------------------------------------------ */
  root.querySelectorAll(".legend button").forEach((button) => {
    button.addEventListener("click", () => {
      const i = +button.dataset.account;
      lit = lit === i ? -1 : i;
      root.querySelectorAll(".legend button").forEach((b) => b.setAttribute("aria-pressed", String(+b.dataset.account === lit)));
      readColours(); drawMap(); redraw();
    });
  });
  root.querySelectorAll("[data-move]").forEach((button) => {
    button.addEventListener("click", () => go(moves[button.dataset.move](), true));
  });
  const form = root.querySelector("form"), answer = form.querySelector("output");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = form.querySelector("input").value.trim();
    found = name ? data.jobs.indexOf(name) : -1;
    if (name && found < 0) found = data.jobs.findIndex((job) => job.includes(name));
    const a = found < 0 ? -1 : c.job.indexOf(found);
    answer.textContent = !name ? "" : a < 0 ? "no such job in the picture" : data.jobs[found];
    if (a >= 0) { choose(a); reveal(a); } else redraw();
  });

  function size() {
    W = canvas.clientWidth; dpr = Math.min(2, window.devicePixelRatio || 1);
    gutter = W < 560 ? 52 : 92;
    H = Math.round(Math.min(660, Math.max(170, lanes * (lanes <= 64 ? 14 : lanes <= 160 ? 5 : 0.63)))) + FOOT;
    canvas.style.height = H + "px";
    canvas.width = Math.round(W * dpr); canvas.height = Math.round(H * dpr);
    readColours(); drawMap(); draw();
  }
  new ResizeObserver(() => { if (canvas.clientWidth !== W) size(); }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", size);
  addEventListener("beforeprint", size);
  size();
  root.dataset.ready = "yes";
})();
