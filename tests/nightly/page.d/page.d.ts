// What the modules of the page have besides their own types.

/** Leaflet, a script of its own. */
interface Window { L: any }

/** Numbers and booleans are written as texts; the page knows which of its elements are fields. */
interface Element {
  setAttribute(name: string, value: any): void;
  dataset?: any;
  hidden?: any;
  device?: any;
}
interface HTMLElement {
  value?: any;
  disabled?: any;
  open?: any;
  href?: any;
  rows?: any;
}

/** Events of the page come from its elements. */
interface EventTarget { closest?: any; matches?: any }
interface Event { detail?: any }
