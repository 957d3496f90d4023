// Frame of the page: theme, banner, login, announcements and toasts.

import { server } from "./api.js";
import { make } from "./format.js";

/** @type {(id: string) => any} */
const get = (id) => document.getElementById(id);
const TOAST_MS = 15_000;
const TOASTS = 3;

/** Announces a text to screen readers. */
export function announce(text) {
  get("says").textContent = text;
}

/** Shows a message with one action; it disappears by itself. */
export function toast(content, { text, run }) {
  const box = get("toasts");
  const act = make("button", "button small", text);
  const close = make("button", "button small icon", "×");
  act.type = close.type = "button";
  close.setAttribute("aria-label", "Close");
  const el = make("div", "toast", [make("p", "", content), act, close]);
  const remove = () => el.remove();
  act.addEventListener("click", () => {
    remove();
    run();
  });
  close.addEventListener("click", remove);
  box.append(el);
  while (box.childElementCount > TOASTS) box.firstElementChild.remove();
  setTimeout(remove, TOAST_MS);
}

/** A part of the page that is loaded when it is needed; null, which a message says, if it cannot be.
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} load
 * @returns {Promise<T | null>}
 */
export async function loadPart(name, load) {
  try {
    return await load();
  } catch {
    toast(`Cannot load ${name}: the server cannot be reached.`, {
      text: "Load the page again",
      run: () => location.reload(),
    });
    return null;
  }
}

/** Shows how the page receives changes. */
export function showState(mode, text) {
  get("live").dataset.state = mode;
  get("live-text").textContent = text;
}

/** Asks for the token until `onToken(token)` succeeds. */
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
    } catch (error) {
      get("login-fault").textContent =
        error.status === 401 ? "The token is wrong." : error.message;
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
  let saved = null;
  try {
    saved = localStorage.getItem("theme");
  } catch {
    // Storage is disabled: use the system's theme.
  }
  if (saved === "dark" || saved === "light") root.dataset.theme = saved;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch {
      // Storage is disabled: the choice lasts until the page is closed.
    }
    show();
  });
  system.addEventListener("change", show);
  show();
}

export function setUpFrame({ onTheme, onRetry }) {
  setUpTheme(onTheme);
  server.addEventListener("offline", ({ detail }) => {
    get("banner-text").textContent = `${detail} Retrying automatically.`;
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
