// Three questions of who runs vehicles, answered on the page by clicks and keys, from its first view.

const VIEW = { width: 1400, height: 900 };

/** A page whose clicks, keys and requests of the API are counted. */
async function counted(browser, url) {
  const context = await browser.newContext({ viewport: VIEW });
  const page = await context.newPage();
  const counts = { clicks: 0, keys: 0, requests: 0 };
  page.on("request", (request) => {
    if (new URL(request.url()).pathname.startsWith("/v1/")) counts.requests += 1;
  });
  const click = async (what) => {
    counts.clicks += 1;
    await what.click();
  };
  const press = async (keys) => {
    for (const key of keys) {
      counts.keys += 1;
      await page.keyboard.press(key);
    }
  };
  const began = performance.now();
  await page.goto(url, { waitUntil: "commit" });
  return { page, counts, click, press, began };
}

const isWhole = () => /^[\d,]+ devices?/.test(document.querySelector("#fleet-facts").textContent);

const QUESTIONS = {
  /** Where are they: all on the map; one of them by its name. */
  async where({ page, click, press }) {
    await page.waitForFunction(isWhole, null, { polling: "raf" });
    await click(page.locator("#device-search"));
    await press("truck-777");
    const row = page.locator("#device-list tr", { hasText: /^truck-777(Moving|Standing|Silent)/ });
    await row.waitFor();
    return row.innerText();
  },
  /** Kilometres of yesterday: of all, and of each in the list. */
  async yesterday({ page, click }) {
    await page.waitForFunction(isWhole, null, { polling: "raf" });
    await click(page.locator("#fleet-days [data-days=before]"));
    await page.waitForFunction(() => {
      const text = document.querySelector("#fleet-total").textContent;
      return text.includes("km") && !text.includes("today");
    }, null, { polling: "raf" });
    return page.locator("#fleet-total").innerText();
  },
  /** Why is this one trip: the late sample that joined what began as two. */
  async why({ page, click, press }) {
    await page.waitForFunction(isWhole, null, { polling: "raf" });
    await click(page.locator("#device-search"));
    await press("truck-51");
    await press(["Enter"]);
    await click(page.locator("#device-days [data-days=before]"));
    await click(page.locator("#day-rows tr:not(.stop) button").first());
    await click(page.locator(".came summary"));
    const joined = page.locator(".steps li", { hasText: "Joined" });
    await joined.waitFor();
    return joined.innerText();
  },
};

/** The name of a question, and what its answer took. */
async function answer(browser, url, name) {
  const asked = await counted(browser, url);
  const text = await QUESTIONS[name](asked);
  const seconds = ((performance.now() - asked.began) / 1000).toFixed(1);
  const { clicks, keys, requests } = asked.counts;
  await asked.page.context().close();
  const took = `${seconds} s, ${clicks} clicks, ${keys} keys, ${requests} requests`;
  return [`question: ${name}`, `${took}: ${text.replaceAll(/\s+/g, " ").slice(0, 90)}`];
}

module.exports = { answer };
