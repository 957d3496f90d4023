// What surrounds the trips: theme, banner, login, what is said and what pops up.

import { server } from "./api.js";
import { make } from "./format.js";

const get = (id) => document.getElementById(id);
const TOAST_MS = 15_000;
const TOASTS = 3;

/** Says it to those who listen to the page. */
export function say(text) {
  get("says").textContent = text;
}

/** A note that goes by itself, with one thing to do about it. */
export function toast(content, { text, run }) {
  const box = get("toasts");
  const act = make("button", "button small", text);
  const close = make("button", "button small icon", "×");
  act.type = close.type = "button";
  close.setAttribute("aria-label", "Close");
  const el = make("div", "toast", [make("p", "", content), act, close]);
  const drop = () => el.remove();
  act.addEventListener("click", () => {
    drop();
    run();
  });
  close.addEventListener("click", drop);
  box.append(el);
  while (box.childElementCount > TOASTS) box.firstElementChild.remove();
  setTimeout(drop, TOAST_MS);
}

/** How changes come. */
export function showState(how, text) {
  get("live").dataset.state = how;
  get("live-text").textContent = text;
}

/** Asks for the token until `onToken(token)` is content with one. */
export function showLogin(onToken) {
  const dialog = get("login");
  if (dialog.open) return;
  get("login-fault").textContent = "";
  get("login-form").onsubmit = async (event) => {
    event.preventDefault();
    try {
      await onToken(get("login-token").value);
      get("login-token").value = "";
      dialog.close();
    } catch (refused) {
      get("login-fault").textContent =
        refused.status === 401 ? "The server does not take this token." : refused.message;
      get("login-token").select();
    }
  };
  dialog.showModal();
}

function setUpTheme(onTheme) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = get("theme");
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => {
    button.setAttribute("aria-pressed", String(isDark()));
    onTheme();
  };
  let kept = null;
  try {
    kept = localStorage.getItem("theme");
  } catch {
    // A browser that keeps nothing: the system's theme.
  }
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch {
      // It holds for as long as the page is open.
    }
    show();
  });
  system.addEventListener("change", show);
  show();
}

export function setUpFrame({ onTheme, onRetry }) {
  setUpTheme(onTheme);
  server.addEventListener("offline", ({ detail }) => {
    get("banner-text").textContent = `${detail} Trying again by itself.`;
    get("banner").hidden = false;
    showState("off", "Offline");
  });
  server.addEventListener("online", () => (get("banner").hidden = true));
  get("banner-retry").addEventListener("click", () => onRetry()?.catch?.(() => {}));
  const toggle = get("devices-toggle");
  toggle.addEventListener("click", () => {
    const isOpen = get("devices").classList.toggle("is-open");
    toggle.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) get("device-search").focus();
  });
}
