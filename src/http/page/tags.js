// The tags of a trip or device: shown, set, changed and removed in place.

import * as api from "./api.js";
import { make, visible } from "./format.js";

/** What the server requires of a key; browsers leave keys of one or two dots out of a URL. */
const KEY = "(?!\\.{1,2}$)[A-Za-z0-9._\\-]{1,64}";
const isSendable = (key) => !/^\.{1,2}$/.test(key);

/** What a refused change means. */
const REFUSALS = {
  401: "Log in to change tags.",
  403: "This token may only read: tags need the right write.",
  404: "There is no such tag any more.",
  405: "This server does not change tags.",
  409: "There are 64 tags already.",
};

function button(text, onClick, label = text) {
  const el = make("button", "button small", text, { type: "button", "aria-label": label });
  el.addEventListener("click", onClick);
  return el;
}

export class Tags {
  owner; url; onChange;

  /**
   * `owner`: what has the `tags`, which is called `what` and has a URL; `onChange()`: they have
   * changed.
   */
  constructor(owner, { what, url, onChange }) {
    Object.assign(this, { owner, url, onChange });
    this.fault = make("p", "fault", "", { role: "alert" });
    this.list = make("dl", "tags");
    this.add = button("Add a tag", () => this.edit(null), `Add a tag to this ${what}`);
    this.form = make("div", "tag-add", this.add);
    this.root = make("section", "tag-section", [
      make("h4", "", `Tags of this ${what}`), this.list, this.form, this.fault,
    ], { "aria-label": `Tags of this ${what}` });
    this.render();
  }

  /** Whether a tag is being written, which no update may interrupt. */
  get isEditing() {
    return this.root.querySelector("form") !== null;
  }

  render() {
    const all = Object.entries(this.owner.tags ?? {});
    this.list.replaceChildren(...all.map(([key, value]) => this.row(key, value)));
    this.list.hidden = !all.length;
    this.form.replaceChildren(this.add);
  }

  row(key, value) {
    const changes = isSendable(key) ? [
      button("Edit", () => this.edit(key), `Edit the tag ${visible(key)}`),
      button("Remove", () => this.send(() => api.removeTag(this.url, key), key, null),
        `Remove the tag ${visible(key)}`),
    ] : [make("span", "muted", "Only the command tstar tag changes this one.")];
    return make("div", "", [
      make("dt", "", make("bdi", "", visible(key))),
      make("dd", "", [make("bdi", "", visible(value)), ...changes]),
    ]);
  }

  /** Shows the fields of a tag: of a new one with null. */
  edit(key) {
    this.render();
    const value = key === null ? "" : this.owner.tags[key];
    const field = (name, text, attributes = {}) => {
      const input = make("input", "", [], { type: "text", autocomplete: "off", ...attributes });
      input.value = text;
      const label = make("label", "", [make("span", "label", name), input]);
      return { input, label };
    };
    const keyField = field("Key", key ?? "", { required: "", pattern: KEY, maxlength: 64,
      title: "Letters, digits, dots, dashes and underscores" });
    keyField.input.readOnly = key !== null;
    const valueField = field("Value", value, { maxlength: 4096 });
    const form = make("form", "tag-form", [keyField.label, valueField.label,
      make("button", "button small primary", "Save", { type: "submit" }),
      button("Cancel", () => this.close())]);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const [name, text] = [keyField.input.value, valueField.input.value];
      this.send(() => api.setTag(this.url, name, text), name, text);
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
    this.form.replaceChildren(form);
    (key === null ? keyField : valueField).input.focus();
  }

  close() {
    this.fault.textContent = "";
    this.render();
    this.add.focus();
  }

  /** Sends a change; a refused one leaves the fields as they are. */
  async send(change, key, value) {
    this.fault.textContent = "";
    try {
      await change();
    } catch (error) {
      this.fault.textContent = REFUSALS[error.status] ?? `Not changed: ${error.message}`;
      return;
    }
    const { [key]: _, ...others } = this.owner.tags ?? {};
    const all = value === null ? others : { ...others, [key]: value };
    this.owner.tags = Object.fromEntries(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1)));
    this.close();
    this.onChange();
  }
}
