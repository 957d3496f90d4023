// Measures the page in Chromium: see tests/nightly/page.

const { loadavg } = require("node:os");
const { join } = require("node:path");
const { chromium } = require("playwright-core");

const { folder, overFile, writeFleet, writeLong } = require("./fleet.js");
const { answer } = require("./questions.js");

const RUNS = 5;
const SIZES = (process.env.TSTAR_TEST_DEVICES ?? "1 1000 10000").split(" ").map(Number);
const POINTS = 20_000;
const VIEW = { width: 1400, height: 900 };

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const load = () => `load ${loadavg()[0].toFixed(1)}`;
const print = (what, figures) => console.log(`${what.padEnd(52)} ${figures}  (${load()})`);

/** In the page: resolves once the list has rows and the map has drawn something, ms since its start. */
const FIRST = `new Promise((done) => {
  const isThere = () => {
    const canvas = document.querySelector(".fleet-canvas");
    if (!document.querySelector("#device-list tr") || !canvas?.width) return false;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.some((value, at) => at % 4 === 3 && value > 0);
  };
  const look = () => (isThere() ? done(performance.now()) : requestAnimationFrame(look));
  look();
})`;

/** Opens a page that nothing is cached for. */
async function open(browser, url) {
  const context = await browser.newContext({ viewport: VIEW });
  const page = await context.newPage();
  await page.goto(url, { waitUntil: "commit" });
  return page;
}

async function firstContent(browser, url, devices) {
  const [first, all] = [[], []];
  for (let nth = 0; nth < RUNS; nth += 1) {
    const page = await open(browser, url);
    first.push(await page.evaluate(FIRST));
    await page.waitForFunction((wanted) => {
      const [number] = document.querySelector("#fleet-facts").textContent.split(" ");
      return Number(number.replaceAll(",", "")) === wanted;
    }, devices, { polling: "raf" });
    all.push(await page.evaluate("performance.now()"));
    await page.context().close();
  }
  print(`first content, ${devices} devices`, `${Math.round(median(first))} ms, median of ${RUNS}`);
  print("  all of them on the map", `${Math.round(median(all))} ms`);
}

/** The intervals of the frames that are drawn while something is done, ms. */
async function frames(page, work) {
  const devtools = await page.context().newCDPSession(page);
  const events = [];
  devtools.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  const categories = "toplevel,devtools.timeline,disabled-by-default-devtools.timeline.frame";
  await devtools.send("Tracing.start", { categories, transferMode: "ReportEvents" });
  await work();
  const complete = new Promise((done) => devtools.once("Tracing.tracingComplete", done));
  await devtools.send("Tracing.end");
  await complete;
  const drawn = events.filter(({ name }) => name === "DrawFrame").map(({ ts }) => ts / 1000);
  drawn.sort((a, b) => a - b);
  const spans = drawn.slice(1).map((ms, at) => ms - drawn[at]);
  const tasks = events.filter(({ name, dur }) => name.endsWith("RunTask") && dur > 50_000);
  return { spans, long: tasks.length, seconds: (drawn.at(-1) - drawn[0]) / 1000 };
}

async function pan(browser, url, devices) {
  const page = await open(browser, url);
  await page.evaluate(FIRST);
  await page.waitForFunction(() => !document.querySelector("#fleet-facts").textContent.includes("+"));
  await page.waitForTimeout(1500);
  const box = await page.locator("#fleet-map").boundingBox();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const { spans, long } = await frames(page, async () => {
    await page.mouse.move(x, y);
    await page.mouse.down();
    for (let at = 0; at < 180; at += 1) {
      const turn = at / 28;
      await page.mouse.move(x + Math.sin(turn) * box.width * 0.4, y + Math.cos(turn) * box.height * 0.3);
    }
    await page.mouse.up();
  });
  const sorted = spans.toSorted((a, b) => a - b);
  const late = sorted[Math.floor(sorted.length * 0.95)];
  print(`pan over ${devices} devices, a frame`, `${median(spans).toFixed(1)} ms median, ` +
    `${late.toFixed(1)} ms 95 %, of ${spans.length}; ${long} tasks over 50 ms`);
  await page.context().close();
}

async function replay(browser) {
  const cwd = folder();
  const id = await writeLong(join(cwd, "samples.ndjson"), POINTS);
  const { child, url } = await overFile(cwd);
  const page = await open(browser, `${url}/#trip=${encodeURIComponent(id)}`);
  await page.waitForSelector(".chart");
  await page.selectOption(".replay select", "300");
  await page.click(".replay .button");
  await page.waitForSelector(".pin.replayed");
  const { spans, seconds } = await frames(page, () => page.waitForTimeout(5000));
  const rate = (spans.length / seconds).toFixed(1);
  print(`replay of ${POINTS} points`, `${rate} frames a second, ${median(spans).toFixed(1)} ms median`);
  await page.context().close();
  child.kill();
}

/** All pages of the list of devices. */
async function list(url, devices) {
  const times = [];
  for (let nth = 0; nth < RUNS; nth += 1) {
    const began = performance.now();
    let [found, cursor] = [0, ""];
    do {
      const next = cursor && `&cursor=${cursor}`;
      const response = await fetch(`${url}/v1/devices?last=true&limit=1000${next}`);
      const page = await response.json();
      if (page.devices.some(({ last }) => last === null)) throw new Error("a device has no position");
      [found, cursor] = [found + page.devices.length, page.next];
    } while (cursor);
    if (found !== devices) throw new Error(`${found} devices of ${devices} are listed`);
    times.push(performance.now() - began);
  }
  return `${Math.round(median(times))} ms, median of ${RUNS}, ${Math.round(Math.min(...times))} at best`;
}

async function main() {
  const args = ["--no-sandbox", "--disable-gpu", "--no-proxy-server"];
  const executablePath = process.env.TSTAR_TEST_CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args });
  for (const devices of SIZES) {
    const cwd = folder();
    await writeFleet(join(cwd, "samples.ndjson"), devices);
    const { child, url } = await overFile(cwd);
    await firstContent(browser, url, devices);
    if (devices < 10_000) {
      child.kill();
      continue;
    }
    print(`/v1/devices?last=true of ${devices}, a file`, await list(url, devices));
    await pan(browser, url, devices);
    for (const question of ["where", "yesterday", "why"]) print(...await answer(browser, url, question));
    child.kill();
  }
  await replay(browser);
  await browser.close();
  process.exit();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
