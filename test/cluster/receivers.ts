// Configurations of software that accepts PROXY headers, in several modes at once, over HTTP and TLS.

/** The ports of one mode. */
export interface ReceiverPorts {
  readonly http: number;
  readonly tls: number;
}

/** Where the software listens, and its files. */
export interface ReceiverPlace {
  /** Empty: all addresses. */
  readonly address: string;
  /** A folder for temporary files. */
  readonly temporary: string;
  /** Files with the key, the certificate, and both of them. */
  readonly key: string;
  readonly cert: string;
  readonly pem: string;
}

type Modes<Setting> = readonly (readonly [Setting, ReceiverPorts])[];

/** nginx's parameter of `listen`, and a list of senders whose headers it believes; empty: no list. */
export type NginxSetting = readonly [listen: "" | "proxy_protocol", list: string];

/** `answer`: the arguments of `return`. */
export function nginxText(modes: Modes<NginxSetting>, place: ReceiverPlace, answer: string): string {
  const { address, temporary, cert, key } = place;
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (one) => `${one}_temp_path ${temporary}/${one};\n`,
  );
  const at = (port: number) => (address === "" ? `${port}` : `${address}:${port}`);
  const servers = modes.map(([[listen, list], { http, tls }]) => {
    const trust = list === "" ? "" : `real_ip_header proxy_protocol; set_real_ip_from ${list};`;
    return `server {
  listen ${at(http)} ${listen};
  listen ${at(tls)} ssl ${listen};
  ${trust}
  return ${answer};
}
`;
  });
  return `daemon off;
pid ${temporary}/pid;
# As ingress-nginx sets it unless its ConfigMap says otherwise.
error_log stderr notice;
events {}
http {
access_log off;
ssl_certificate ${cert};
ssl_certificate_key ${key};
${folders.join("")}${servers.join("")}}
`;
}

/** HAProxy's parameter of `bind`, and a list of senders of whom it expects a header; empty: no list. */
export type HaproxySetting = readonly [bind: "" | "accept-proxy", list: string];

/** `answer`: the arguments of `http-request return`. */
export function haproxyText(modes: Modes<HaproxySetting>, { address, pem }: ReceiverPlace, answer: string): string {
  const frontends = modes.map(([[bind, list], { http, tls }], index) => {
    const expect = list === "" ? "" : `tcp-request connection expect-proxy layer4 if { src ${list} }`;
    return `frontend mode${index}
  bind ${address}:${http} ${bind}
  bind ${address}:${tls} ssl crt ${pem} ${bind}
  ${expect}
  http-request return ${answer}
`;
  });
  return `defaults
  mode http
  log stdout format raw local0
  option httplog
  timeout client 30s
${frontends.join("")}`;
}

/** `modes`: the settings of Caddy's `proxy_protocol`; undefined: without it. `answer`: of `static_response`. */
export function caddyJson(modes: Modes<object | undefined>, place: ReceiverPlace, answer: object): string {
  const { address, cert, key } = place;
  const servers = modes.flatMap(([setting, ports], index) =>
    Object.entries(ports).map(([speaks, port]) => [
      `${speaks}${index}`,
      {
        listen: [`${address}:${port}`],
        automatic_https: { disable: true },
        protocols: ["h1"],
        routes: [{ handle: [{ handler: "static_response", ...answer }] }],
        ...(setting && { listener_wrappers: [{ wrapper: "proxy_protocol", ...setting }, { wrapper: "tls" }] }),
        ...(speaks === "tls" && { tls_connection_policies: [{}] }),
      },
    ]),
  );
  const http = { servers: Object.fromEntries(servers) };
  const tls = { certificates: { load_files: [{ certificate: cert, key }] } };
  return JSON.stringify({ admin: { disabled: true, config: { persist: false } }, apps: { http, tls } });
}
