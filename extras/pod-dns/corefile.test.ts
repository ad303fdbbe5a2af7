import assert from "node:assert/strict";
import { test } from "node:test";
import { renderCorefile } from "./corefile.ts";

const OPTIONS = {
  directory: "/run/switchback-dns",
  address: "::",
  upstream: "/etc/resolv.conf",
  clusterDomains: ["cluster.local"],
};

test("the Corefile has the cluster's names first, then addresses, then everything else", () => {
  assert.equal(
    renderCorefile(OPTIONS),
    `cluster.local:1053 {
    errors
    prometheus :9153
    forward . /etc/resolv.conf {
        max_concurrent 1000
    }
}

.:1053 {
    view addresses {
        expr type() in ['A', 'AAAA']
    }
    errors
    prometheus :9153
    hosts /run/switchback-dns/hosts {
        ttl 5
        no_reverse
        reload 100ms
        fallthrough
    }
    file /run/switchback-dns/wildcards.zone . {
        reload 100ms
        fallthrough
    }
    forward . /etc/resolv.conf {
        max_concurrent 1000
    }
}

.:1053 {
    errors
    prometheus :9153
    health :8085
    ready :8086
    forward . /etc/resolv.conf {
        max_concurrent 1000
    }
}
`,
  );
});

for (const [address, bind, metrics] of [
  ["192.0.2.1", "bind 192.0.2.1", "192.0.2.1:9153"],
  ["2001:db8::1", "bind 2001:db8::1", "[2001:db8::1]:9153"],
] as const) {
  test(`every server block and the metrics bind ${address}`, () => {
    const text = renderCorefile({ ...OPTIONS, address });
    assert.equal(text.split(bind).length, 4);
    assert.match(text, new RegExp(`prometheus ${RegExp.escape(metrics)}\n`));
  });
}
