import assert from "node:assert/strict";
import { STATUS_KEY_HEADER } from "#lib/documents/status-page.ts";
import { OBJECTS } from "../../../published.ts";
import { AGENTS, NAMESPACE, until } from "../../system.ts";
import type { Attack } from "../attack.ts";
import { HOSTILE, NEIGHBOUR_NAME } from "../stage.ts";

const SECRETS = `/api/v1/namespaces/${NAMESPACE}/secrets`;
const SECRET = `${SECRETS}/${OBJECTS.statusKey}`;
const BY_NAME = `${SECRETS}?fieldSelector=metadata.name%3D${OBJECTS.statusKey}`;
const PROXIED = `/api/v1/namespaces/${NAMESPACE}/services/switchback-controller:http/proxy/status`;

/** Without the right to read the key, nobody learns a claim of another namespace. */
export const STATUS_ATTACKS: readonly Attack[] = [
  {
    name: "the status without its key",
    by: "client",
    async run(stage) {
      const { controllers, webhooks, proxies, agents } = stage.system;
      const key = await stage.system.readStatusKey();
      const guesses = [undefined, "", "x".repeat(key.length), key.slice(1), `${key},${key}`];
      const headers = guesses.map((guess) => ({ ...(guess !== undefined && { [STATUS_KEY_HEADER]: guess }) }));
      const token = await stage.system.cluster.tokenFor(`${HOSTILE}/tenant`);
      let tried = 0;
      for (const { page } of [...controllers, ...webhooks, ...proxies, ...agents]) {
        for (const path of ["/status", "/status?", "/status/", "//status", "/%73tatus", "/STATUS"]) {
          for (const sent of [...headers, { authorization: `Bearer ${token}` }]) {
            const { status, text } = await page(path, sent);
            assert.ok([403, 404].includes(status), `${path}: ${status}`);
            assert.ok(!text.includes(NEIGHBOUR_NAME) && !text.includes(key), text.slice(0, 100));
            tried += 1;
          }
        }
      }
      const [page] = await Promise.all(controllers.map((controller) => controller.page("/metrics")));
      assert.ok(!page?.text.includes("example.com"), "a name in the metrics");
      assert.ok((await (await stage.system.leader()).status()).names.some(({ name }) => name === NEIGHBOUR_NAME));
      return {
        tried: `${tried} requests without the key, or with a guess`,
        outcome: "403 or 404 without the key, 200 with it",
      };
    },
  },
  {
    name: "the status from another namespace",
    by: "tenant",
    async run(stage) {
      await stage.system.showController();
      const headers = { [STATUS_KEY_HEADER]: await stage.system.readStatusKey() };
      const proxied = async (sent: Record<string, string>) => {
        const { status, body } = await stage.system.cluster.call({ path: PROXIED, headers: sent });
        return `${status} ${JSON.stringify(body)}`;
      };
      await until("the API server to reach the controller", async () => (await proxied(headers)).startsWith("200"));
      assert.ok((await proxied(headers)).includes(NEIGHBOUR_NAME));
      assert.match(await proxied({}), /^403 "send the key/, "a right to the Service alone is not enough");
      for (const path of [SECRET, SECRETS, BY_NAME, PROXIED]) {
        assert.equal((await stage.tenant({ path, headers })).status, 403, path);
      }
      return {
        tried: "the Secret, by name and in lists, and the page through the API server",
        outcome: "refused by the API server; without the key the controller refuses its admin, too",
      };
    },
  },
  {
    name: "the key of the status",
    by: "stolen token",
    async run(stage) {
      // In the profile small, webhook and proxy use the controller's account, which creates the key.
      const others = stage.profile === "small" ? [] : (["webhook", "proxy"] as const);
      const accounts = [...others.map((name) => stage.accountOf(name)), `${AGENTS}/switchback-agent`];
      for (const account of accounts) {
        for (const path of [SECRET, BY_NAME, PROXIED]) {
          assert.equal((await stage.stolen(account, { path })).status, 403, `${account}: ${path}`);
        }
      }
      return { tried: `reading it with the tokens of ${accounts.join(", ")}`, outcome: "refused by the API server" };
    },
  },
];
