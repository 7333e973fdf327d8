"use strict";

// A click on a heading sorts by its column: up, down, then as it was.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => {
    const next = {ascending: "descending", descending: "none"}[heading.getAttribute("aria-sort")] ?? "ascending";
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    if (next !== "none") heading.setAttribute("aria-sort", next);
    const filled = original.filter((row) => key(row, column) !== "");
    const empty = original.filter((row) => key(row, column) === "");
    const sign = next === "descending" ? -1 : 1;
    const sorted = [...filled].sort((a, b) => sign * compare(key(a, column), key(b, column)));
    body.append(...(next === "none" ? original : [...sorted, ...empty]));
  }));
}

// Light or dark: what the system says, until the switch is used.
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
