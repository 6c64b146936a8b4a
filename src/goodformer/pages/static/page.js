// Sorting, filtering and the light or dark theme of a page. Everything else works without this script.
"use strict";
(() => {
  const number = (cell) => (cell.dataset.value === undefined || cell.dataset.value === "" ? null : Number(cell.dataset.value));
  const compare = (one, other) => {
    const [a, b] = [number(one), number(other)];
    if (a !== null && b !== null) return a - b;
    return one.textContent.trim().localeCompare(other.textContent.trim(), "en", { numeric: true });
  };
  const empty = (cell) => cell.dataset.value === "" || (cell.dataset.value === undefined && cell.textContent.trim() === "");

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && !head.classList.contains("number"));
        const body = table.tBodies[0];
        const rows = [...body.rows].sort((one, other) => {
          const [a, b] = [one.cells[column], other.cells[column]];
          if (empty(a) || empty(b)) return Number(empty(a)) - Number(empty(b)); // empty cells stay last
          return up ? compare(a, b) : compare(b, a);
        });
        body.append(...rows);
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
      });
    });
  }

  for (const tools of document.querySelectorAll("[data-filters]")) {
    const table = document.getElementById(tools.dataset.filters);
    const words = tools.querySelector("input[type=search]");
    const only = [...tools.querySelectorAll("select[data-key], input[type=checkbox][data-key]")];
    const count = tools.querySelector("output");
    const filter = () => {
      const wanted = words ? words.value.trim().toLowerCase() : "";
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        const matches = only.every((one) => {
          if (one.type === "checkbox") return !one.checked || row.dataset[one.dataset.key] === one.value;
          return one.value === "" || row.dataset[one.dataset.key] === one.value;
        });
        row.hidden = !(matches && (wanted === "" || `${row.textContent} ${row.dataset.words ?? ""}`.toLowerCase().includes(wanted)));
        shown += Number(!row.hidden);
      }
      if (count) count.textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
    };
    tools.addEventListener("input", filter);
    filter();
  }

  for (const choice of document.querySelectorAll("select[data-panels]")) {
    const show = () => {
      for (const panel of document.querySelectorAll(`[data-panel-of="${choice.id}"]`)) panel.hidden = panel.dataset.panel !== choice.value;
    };
    choice.addEventListener("input", show);
    show();
  }

  const theme = document.getElementById("theme");
  if (theme) {
    theme.hidden = false;
    theme.addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
  }
})();
