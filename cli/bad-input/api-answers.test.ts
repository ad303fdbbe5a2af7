import { type BadInput, walk } from "#test/fakes/bad-input.ts";
import { type Responder, refuse } from "#test/fakes/kube-api.ts";

// Something else answers at the API server's address, or the API server refuses. Each command reports which request
// failed, how it failed, and what to do.

const COMMANDS = [
  ["status"],
  ["uninstall", "--check"],
  ["uninstall", "--yes", "--timeout", "1"],
  ["restart", "shop", "--yes"],
  ["inject", "-f", "/dev/null"],
] as const;

const ANSWERS: Readonly<Record<string, string>> = {
  "no body": "",
  "a page": "<html>log in</html>",
  null: "null",
  "a list of JSON": "[]",
  "a number": "5",
  "an empty object": "{}",
  "another object": '{"message":"ok"}',
  "an object without metadata": '{"metadata":null,"leader":true}',
  "a list with nothing in it": '{"items":[null],"metadata":{"resourceVersion":"1"}}',
  "a list of other objects": '{"items":[{}],"metadata":{"resourceVersion":"1"}}',
  "a status of another shape":
    '{"leader":true,"identity":"c","warnings":[],"targets":[],"names":[],"running":{"workloads":[null]}}',
};

function answer(body: string): Responder {
  return ({ response }) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(body);
  };
}

walk(
  "an answer of another shape is named:",
  COMMANDS.flatMap((args) =>
    Object.entries(ANSWERS).map(([what, body]): BadInput => {
      const says = /^switchback: (GET \/apis?\/\S+: )?the response is not [^\n]*\n$/;
      return { what, args, api: answer(body), says, code: 1 };
    }),
  ),
);

walk(
  "401 says whose credentials were refused, and what to do:",
  COMMANDS.map((args) => ({
    what: "401",
    args,
    api: refuse(401, "Unauthorized"),
    says: /^switchback: GET \S+ \(the credentials for http:\/\/127\.0\.0\.1:\d+ \(context "x" of kubeconfig \S+\)\): 401 [^\n]*\nswitchback: log in to the cluster again, or renew the token or certificate/,
    code: 1,
  })),
);

/** Worded as by the API server. */
const forbidden: Responder = ({ path, response }) => {
  const message = `x is forbidden: User "jane" cannot get resource "x" in API group "" in the namespace "ours"`;
  response.writeHead(403, { "content-type": "application/json" });
  response.end(JSON.stringify({ kind: "Status", code: 403, reason: "Forbidden", message: `${message} (${path})` }));
};
const ADMIN = /permissions of a cluster admin, like installing\n$/;
const READER = new RegExp(
  ": 403 Forbidden: [^\\n]*\\nswitchback: the ClusterRole switchback-reader has the right; an admin can " +
    "bind it in the namespace ours: kubectl -n ours create rolebinding switchback-reader --clusterrole " +
    "switchback-reader --user 'jane'\\n$",
);

walk(
  "403 names the ClusterRole that is missing, and how to bind it:",
  COMMANDS.map((args): BadInput => {
    const option = args[0] === "status" || args[0] === "restart" ? "--switchback-namespace" : "-n";
    const says = args[0] === "uninstall" ? ADMIN : READER;
    return { what: "403", args: [...args, option, "ours"], api: forbidden, says, code: 1 };
  }),
);
