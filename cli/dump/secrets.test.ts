import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parseHostname } from "#hostmap/hostnames.ts";
import { useFiles } from "#test/fakes/cli.ts";
import { readWhole } from "#test/fakes/cluster-table.ts";
import { nastyCluster } from "#test/fakes/nasty-cluster.ts";
import { SecretTexts } from "#test/fakes/secret-texts.ts";
import { fc } from "#test/property.ts";
import { Redactor } from "./redact.ts";
import { answerSchema, KINDS } from "./schemas.ts";
import { statusOfFile } from "./status-of-file.ts";
import { dumpLines, recordCluster } from "./write-dump.ts";

describe("a redacted dump lets no secret through", () => {
  const files = useFiles();

  test("property: of any text, key or number in any document, whatever its schema", () => {
    const shapes = fc.object({ maxDepth: 3, values: [fc.constant("text"), fc.constant(1)] });
    const schemas = fc.constantFrom(...[...KINDS.values()].map(({ schema }) => schema), answerSchema);
    fc.assert(
      fc.property(shapes, schemas, fc.nat(), (shape, schema, seed) => {
        const make = new SecretTexts(seed);
        const put = (value: unknown): unknown => {
          if (typeof value === "string") return make.next();
          if (typeof value === "number") return Number(make.number());
          if (Array.isArray(value)) return value.map(put);
          return Object.fromEntries(Object.values(Object(value)).map((field) => [make.next(), put(field)]));
        };
        const redactor = new Redactor();
        assert.deepEqual(make.foundIn(JSON.stringify(redactor.redact(schema, put(shape) as object))), []);
      }),
    );
  });

  for (const refused of [false, true]) {
    test(`of a nasty cluster${refused ? " that refuses every list" : ""}, and the dump can be read`, async () => {
      const make = new SecretTexts(Number(refused));
      const { client, namespace } = await nastyCluster(make, refused);
      const cluster = await recordCluster(client, { namespace, probeNamespace: namespace, now: Date.now() });
      const documents = [...dumpLines(cluster, true)];
      assert.deepEqual(
        documents.flatMap((document) => make.foundIn(document).map((part) => `${part} in ${document}`)),
        [],
      );
      await statusOfFile(await readWhole(documents.join("\n---\n"), files));
      const plain = [...dumpLines(cluster, false)];
      const unseen = [...KINDS.values()].filter(({ kind }) => {
        return !plain.some((document) => document.includes(`"kind":"${kind}"`));
      });
      if (!refused) assert.deepEqual(unseen, []);
      assert.ok(make.foundIn(plain.join("\n")).length > 100);
      for (const unread of ['"env"', '"headers"', '"tls.key"', "# password", '"gitVersion"']) {
        assert.ok(!plain.some((document) => document.includes(unread)), unread);
      }
    });
  }

  for (const [what, text, ...secrets] of [
    ["an address in a hostname", "shop.203.0.113.7.nip.io", "203", "113", "nip"],
    ["an ACME account", "https://acme-v02.api.letsencrypt.org/acme/acct/987654321", "987654321"],
    ["a brand that is a top-level domain", "bmw", "bmw"],
    ["a name that begins like ours", "switchback-initech", "initech"],
    ["a cluster's id", "public-crbk1a2b3c-alb1", "bk1a2b3c"],
    ["a cluster's id in another name", "public-crbk1a2b3c-alb1-controller", "bk1a2b3c"],
    ["an IPv6 address of a network card", "fe80::a00:27ff:fe4e:66a1", "27ff"],
  ] as const) {
    test(`of ${what}`, () => {
      const shown = new Redactor().text(text);
      for (const secret of secrets)
        assert.ok(!shown.toLowerCase().includes(secret.toLowerCase()), `${secret}: ${shown}`);
    });
  }
});

test("property: a hostname is valid, or invalid for the same reason, after redaction", () => {
  const label = fc.oneof(
    fc.stringMatching(/^[a-zA-Z0-9-]{1,12}$/),
    fc.constantFrom("", "*", "a_b", "ü", "x".repeat(64), "x".repeat(300), "0x1f", "123", "com", "svc", "local", "bmw"),
  );
  const hostname = fc.array(label, { minLength: 1, maxLength: 5 }).map((labels) => labels.join("."));
  const reasonOf = (text: string) => {
    const parsed = parseHostname(text);
    return parsed.kind === "invalid" ? parsed.reason.code : parsed.kind;
  };
  const words = new Redactor();
  fc.assert(fc.property(hostname, (text) => assert.equal(reasonOf(words.text(text)), reasonOf(text), text)));
});
