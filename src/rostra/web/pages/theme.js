// Light or dark: what the reader chose here, or else what their system says. Runs before anything is drawn,
// so that a dark page never flashes white.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("rostra-theme");
  } catch {
    // Storage may be forbidden; then the choice lasts as long as the page.
  }

  const isDark = () => (chosen === null ? system.matches : chosen === "dark");
  const show = () => {
    root.dataset.theme = isDark() ? "dark" : "light";
    document.getElementById("theme")?.setAttribute("aria-pressed", String(isDark()));
  };

  show();
  system.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = isDark() ? "light" : "dark";
      try {
        localStorage.setItem("rostra-theme", chosen);
      } catch {
        // As above.
      }
      show();
    });
  });
})();
