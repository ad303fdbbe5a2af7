import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { askRound } from "#proxy/detection/ask.ts";
import { whyNoDebian } from "../../cluster/debian.ts";
import { HAPROXY_MODES, NGINX_MODES, startHaproxy, startNginx } from "./debian.ts";
import { NAME, type Running, run, SPEAKS, type Start } from "./software.ts";

// What a round adds to the log of an ingress controller: at most one line per connection, whether the software logs
// an error or the connection. nginx logs only broken headers, HAProxy logs each connection.

/**
 * How a line of a log begins. nginx 1.22 logs what it took for a header, with its line breaks. Newer versions log
 * only the first line of it (nginx, src/core/ngx_proxy_protocol.c, "broken header").
 */
const NGINX_LINE = /^\d{4}\/\d\d\/\d\d /;
const HAPROXY_LINE = /^127\.0\.0\.1:\d+ /;
/** A log that does not grow for this many milliseconds has all lines of the connections that have ended. */
const QUIET_MS = 500;

async function linesOf(log: () => Promise<string>, begin: RegExp): Promise<string[]> {
  let text = await log();
  for (;;) {
    await delay(QUIET_MS);
    const now = await log();
    if (now === text) return text.split("\n").filter((line) => begin.test(line));
    text = now;
  }
}

function logs<Mode extends string>(
  name: string,
  begin: RegExp,
  all: Readonly<Record<Mode, unknown>>,
  start: Start<Mode>,
): void {
  const modes = Object.keys(all) as Mode[];
  describe(name, { skip: whyNoDebian() ?? false }, () => {
    let running: Running<Mode>;
    let most = 0;
    before(async () => {
      running = await run(name, modes, start);
    });
    after(() => running?.stop());
    for (const mode of modes) {
      for (const speaks of SPEAKS) {
        it(`${mode}, ${speaks}: at most three lines a round`, async () => {
          const { length } = await linesOf(running.log, begin);
          await askRound({ host: "127.0.0.1", port: running.ports[mode][speaks], speaks, name: NAME, agent: "test" });
          const lines = (await linesOf(running.log, begin)).slice(length);
          most = Math.max(most, lines.length);
          assert.ok(lines.length <= 3, lines.join("\n"));
        });
      }
    }
    it("there are such lines, so that the count means something", () => assert.ok(most > 0));
  });
}

logs("nginx", NGINX_LINE, NGINX_MODES, startNginx);
logs("haproxy", HAPROXY_LINE, HAPROXY_MODES, startHaproxy);
