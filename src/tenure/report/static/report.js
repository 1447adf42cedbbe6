"use strict";
/* Tables that sort and filter, charts that tell their values under the pointer. The page reads without it. */
(function () {
  document.querySelectorAll("table.sorts").forEach((table) => {
    const body = table.tBodies[0];
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const text = head.classList.contains("text"), was = head.getAttribute("aria-sort");
        const down = was ? was === "ascending" : !text;
        table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => {
          const cell = row.cells[column], raw = cell.dataset.v !== undefined ? cell.dataset.v : cell.textContent;
          return text ? raw : raw === "" ? -Infinity : Number(raw);
        };
        const rows = [...body.rows].map((row) => [value(row), row]);
        rows.sort((p, q) => (text ? String(p[0]).localeCompare(String(q[0])) : p[0] - q[0]) * (down ? -1 : 1));
        body.append(...rows.map((pair) => pair[1]));
      });
    });
  });

  document.querySelectorAll("form.filter").forEach((form) => {
    const table = document.getElementById(form.dataset.table), count = form.querySelector("output");
    function sift() {
      const word = form.querySelector("input").value.trim().toLowerCase();
      const picks = [...form.querySelectorAll("select")].filter((s) => s.value).map((s) => [+s.dataset.column, s.value]);
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        const fits = (!word || row.textContent.toLowerCase().includes(word)) &&
          picks.every(([column, value]) => row.cells[column].textContent.trim() === value);
        row.hidden = !fits;
        shown += fits;
      }
      count.textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
    }
    form.addEventListener("input", sift);
    form.addEventListener("submit", (event) => event.preventDefault());
    sift();
  });

  const UNITS = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
  document.querySelectorAll(".plot[data-hover]").forEach((plot) => {
    const told = JSON.parse(plot.dataset.hover), n = told.names.length;
    let cross = null, read = null;
    function show(event) {
      const box = plot.getBoundingClientRect(), part = (event.clientX - box.left) / box.width;
      if (part < 0 || part > 1) { hide(); return; }
      const x = told.low + part * (told.high - told.low);
      let bin = told.edges.findIndex((edge) => edge > x) - 1;
      if (bin < 0) bin = told.edges.length - 2;
      if (!cross) {
        cross = document.createElement("div"); cross.className = "cross";
        read = document.createElement("div"); read.className = "read";
        plot.append(cross, read);
      }
      cross.style.left = 100 * part + "%";
      const lines = [told.when[bin]];
      for (let i = 0; i < n; i++) lines.push(`${told.names[i]} ${UNITS.format(told.values[i][bin])} ${told.unit}`);
      read.replaceChildren(...lines.map((line) => { const d = document.createElement("div"); d.textContent = line; return d; }));
      read.style.top = "6px";
      if (part > 0.5) { read.style.right = 100 * (1 - part) + 2 + "%"; read.style.left = ""; }
      else { read.style.left = 100 * part + 2 + "%"; read.style.right = ""; }
    }
    function hide() { if (cross) { cross.remove(); read.remove(); cross = read = null; } }
    plot.addEventListener("pointermove", show);
    plot.addEventListener("pointerdown", show);
    plot.addEventListener("pointerleave", hide);
  });
})();
