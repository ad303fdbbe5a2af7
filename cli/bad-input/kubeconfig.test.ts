import assert from "node:assert/strict";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import { createTestCa } from "#test/cluster/pki.ts";
import { walk } from "#test/fakes/bad-input.ts";
import { runHere, useFiles } from "#test/fakes/cli.ts";
import { type FakeApi, fakeApi, json } from "#test/fakes/kube-api.ts";

const base64 = (text: string) => Buffer.from(text).toString("base64");

/** A kubeconfig with one context, `x`, that has the cluster `c` and the user `u`. */
function kubeconfig(cluster: object, user: object = {}, more: object = {}): string {
  const context = { name: "x", context: { cluster: "c", user: "u" } };
  const [clusters, users] = [[{ name: "c", cluster }], [{ name: "u", user }]];
  return JSON.stringify({ clusters, users, contexts: [context], "current-context": "x", ...more });
}

const server = "https://127.0.0.1:1";
const exec = { apiVersion: "client.authentication.k8s.io/v1", interactiveMode: "Never" };
const notURL = (url: string) =>
  new RegExp(`^switchback: kubeconfig \\S+: server "${url}" is not a URL such as https://10\\.0\\.0\\.1:6443\\n$`);

walk(
  "a kubeconfig is refused, with its place and what is wrong with it:",
  (
    [
      ["not YAML", "{{{", /^switchback: kubeconfig \S+ cannot be read: /],
      ["another document", "hello", /^switchback: kubeconfig \S+: no context ""; available: none\n$/],
      [
        "no server",
        kubeconfig({}),
        /^switchback: kubeconfig \S+ cannot be read: clusters\[0\]\.cluster\.server is missing/,
      ],
      ["a server that is no URL", kubeconfig({ server: "foo" }), notURL("foo")],
      [
        "a user that is not there",
        kubeconfig({ server }, {}, { users: [] }),
        /^switchback: kubeconfig \S+: no user "u"; available: none\n$/,
      ],
      [
        "a CA file that is not there",
        kubeconfig({ server, "certificate-authority": "/nonexistent/ca.crt" }),
        /^switchback: the credentials of context "x" of kubeconfig \S+ cannot be read: .*'\/nonexistent\/ca\.crt'\n$/,
      ],
      [
        "a login command that is not there",
        kubeconfig({ server }, { exec: { ...exec, command: "/nonexistent/login" } }),
        /^switchback: the credentials of context "x" of kubeconfig \S+ cannot be had from the command "\/nonexistent\/login": .*ENOENT\n$/,
      ],
      [
        "a login command that fails",
        kubeconfig({ server }, { exec: { ...exec, command: "false" } }),
        /^switchback: the credentials of context "x" of kubeconfig \S+ cannot be had from the command "false"/,
      ],
    ] as const
  ).map(([what, file, says]) => ({ what, args: ["status", "--kubeconfig", "FILE"], file, says })),
);

describe("if the connection to a server fails, the error names the server, the kubeconfig and what to do:", () => {
  const [ca, otherCa] = [createTestCa("right"), createTestCa("wrong")];
  const files = useFiles();
  let https: FakeApi;
  let misnamed: FakeApi;
  let plain: FakeApi;
  const mute = net.createServer((socket) => socket.on("error", () => {}).end("220 mail\r\n"));
  before(async () => {
    https = await fakeApi(json({}), { tls: ca.serving(["127.0.0.1"]) });
    misnamed = await fakeApi(json({}), { tls: ca.serving(["api.example.com"]) });
    plain = await fakeApi(json({}));
    await once(mute.listen(0, "127.0.0.1"), "listening");
  });
  after(async () => {
    mute.close();
    await Promise.all([https.close(), misnamed.close(), plain.close()]);
  });

  const port = (api: FakeApi) => `https://127.0.0.1:${api.url.port}`;
  const withCa = (pem: string) => ({ "certificate-authority-data": base64(pem) });
  for (const [what, cluster, user, says] of [
    [
      "another cluster's CA",
      () => ({ server: port(https), ...withCa(otherCa.cert) }),
      {},
      /its certificate is not from the CA in its configuration, or that has no CA \(\w+\)\n$/,
    ],
    [
      "a certificate for another name",
      () => ({ server: port(misnamed), ...withCa(ca.cert) }),
      {},
      /does not match certificate's altnames: .*\n$/,
    ],
    [
      "a client certificate that does not load",
      () => ({ server: port(https), ...withCa(ca.cert) }),
      { "client-certificate-data": base64("x"), "client-key-data": base64("y") },
      /PEM routines.*\n$/,
    ],
    [
      "a port that speaks plain HTTP",
      () => ({ server: port(plain) }),
      {},
      /it does not speak TLS; is it an HTTPS address\? \(EPROTO\)\n$/,
    ],
    [
      "a port that speaks something else",
      () => ({ server: `https://127.0.0.1:${(mute.address() as AddressInfo).port}` }),
      {},
      /it does not speak TLS; is it an HTTPS address\? \(EPROTO\)\n$/,
    ],
    [
      "a port that nothing listens on",
      () => ({ server }),
      {},
      /nothing listens there; is the address right, and the API server running\? \(ECONNREFUSED\)\n$/,
    ],
  ] as const) {
    it(what, async () => {
      const file = await files.file("kubeconfig", kubeconfig(cluster(), user));
      const { code, stdout, stderr } = await runHere(["status"], { KUBECONFIG: file });
      assert.match(
        stderr,
        /^switchback: GET \S+: the API server cannot be reached: https:\/\/127\.0\.0\.1:\d+ \(context "x" of kubeconfig \S+\): /,
      );
      assert.match(stderr, says);
      assert.doesNotMatch(stderr, /Node\.js/);
      assert.deepEqual([code, stdout], [1, ""]);
    });
  }
});
