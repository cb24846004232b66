/* What the pages do with JavaScript and can do without: colours, keys, newer numbers while a run works.
   Loaded before the page is drawn, so that chosen colours are there from the first moment. */
"use strict";

(() => {
  const THEME = "_x_adminTheme"; // the admin's own choice, so that both agree
  const KEYS = "vigil.keys";
  const THEMES = ["auto", "light", "dark"];

  const kept = (name) => { try { return JSON.parse(localStorage.getItem(name)); } catch { return null; } };
  const keep = (name, value) => { try { localStorage.setItem(name, JSON.stringify(value)); } catch { /* private */ } };

  const theme = () => (THEMES.includes(kept(THEME)) ? kept(THEME) : "auto");
  const paint = () => { document.documentElement.dataset.theme = theme(); };
  paint();

  const colours = (button) => {
    const show = () => { button.textContent = button.dataset[theme()]; };
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      keep(THEME, THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
      paint();
      show();
    });
  };

  const isTyping = (target) => target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);

  const keyboard = (dialog, opener) => {
    const on = document.getElementById("keys-on");
    on.checked = kept(KEYS) !== false;
    on.addEventListener("change", () => keep(KEYS, on.checked));
    opener.hidden = false;
    opener.addEventListener("click", () => dialog.showModal());
    let before = "";
    document.addEventListener("keydown", (event) => {
      if (!on.checked || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || dialog.open) return;
      const pressed = before === "g" ? `g ${event.key}` : event.key;
      before = event.key;
      if (pressed === "?") { event.preventDefault(); dialog.showModal(); return; }
      const field = pressed === "/" && document.querySelector("input[type=search], [data-search]");
      const place = field || document.querySelector(`[data-key="${CSS.escape(pressed)}"]`);
      if (!place) return;
      event.preventDefault();
      if (field) place.focus(); else place.click();
    });
  };

  /* Look again while a run works: the page itself is asked for, and its marked parts are put in the place of the old
     ones. A part in which somebody is at work is left alone. */
  const live = (box) => {
    const pause = document.getElementById("live-pause");
    pause.hidden = false;
    pause.addEventListener("click", () => {
      const paused = pause.getAttribute("aria-pressed") !== "true";
      pause.setAttribute("aria-pressed", String(paused));
    });
    const look = async () => {
      const seconds = Number(document.getElementById("live")?.dataset.poll || 0);
      if (!seconds) return;
      if (pause.getAttribute("aria-pressed") !== "true" && !document.hidden) await renew();
      setTimeout(look, seconds * 1000);
    };
    setTimeout(look, Number(box.dataset.poll) * 1000);
  };

  const renew = async () => {
    let answer;
    try { answer = await fetch(location.href, { headers: { "X-Requested-With": "fetch" } }); } catch { return; }
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = page.title;
    for (const part of page.querySelectorAll("[data-live]")) {
      const old = document.getElementById(part.id);
      if (!old || old.contains(document.activeElement) || old.innerHTML === part.innerHTML) continue;
      for (const open of old.querySelectorAll("details[open][id]")) part.querySelector(`#${open.id}`)?.setAttribute("open", "");
      old.replaceChildren(...part.childNodes);
    }
    const box = document.getElementById("live");
    const now = page.getElementById("live");
    const said = document.getElementById("live-said");
    const saying = page.getElementById("live-said")?.textContent || box.dataset.over;
    if (said.textContent !== saying) said.textContent = saying;
    box.dataset.poll = now ? now.dataset.poll : "0";
  };

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (button) colours(button);
    const dialog = document.getElementById("keys");
    if (dialog) keyboard(dialog, document.getElementById("keys-open"));
    const box = document.getElementById("live");
    if (box) live(box);
  });
})();
