// The page that needs no server, in Chromium: `node page.mjs FOLDER_OF_PLAYWRIGHT PAGE`.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [tools, page] = process.argv.slice(2);
const { chromium } = createRequire(`${tools}/`)("playwright-core");
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
try {
  const tab = await browser.newPage();
  const faults = [];
  const requests = [];
  tab.on("pageerror", (error) => faults.push(error.message));
  tab.on("request", (request) => requests.push(request.url()));
  await tab.goto(pathToFileURL(page).href);
  const rows = () => tab.$$eval("#trips tr", (found) => found.map((row) => row.innerText));
  await tab.waitForSelector("#trips tr");
  const first = await rows();
  assert.equal(first.length, 3, first.join("\n"));
  assert.match(first[0], /truck-17~20261120T200000\.000Z.*truck-17~20261120T201000\.000Z/s);
  assert.match(first[1], /stop/);

  // Under another rule the silence ends no trip; a line that is not valid is named.
  await tab.fill("#gap", "0.5");
  assert.equal((await rows()).length, 9);
  await tab.fill("#gap", "5");
  await tab.fill("#samples", `${await tab.inputValue("#samples")}bus,2026-11-20T20:00:00Z,95,13\n`);
  assert.match(await tab.textContent("#says"), /Line 10: lat is 95; it must be -90 to 90/);
  assert.equal((await rows()).length, 3);
  assert.deepEqual(faults, []);
  assert.deepEqual(requests.filter((url) => !url.startsWith("file:")), []);
  await tab.screenshot({ path: page.replace(/html$/, "png"), fullPage: true });
} finally {
  await browser.close();
}
