/**
 * Whether a port of an ingress controller expects a PROXY header. `demands-*`: it answers only with a header, of this
 * version or of either. `optional`: it answers with and without one. `refuses-header`: it answers without a header,
 * and a header makes it close the connection or misread the request. `unknown`: anything else.
 *
 * A port that accepts headers only from listed addresses may refuse headers from other addresses.
 */
export const HEADER_ANSWERS = [
  "demands-v1",
  "demands-v2",
  "demands-either",
  "optional",
  "refuses-header",
  "unknown",
] as const;
export type HeaderAnswer = (typeof HEADER_ANSWERS)[number];

/** Describes the answer of each port that was asked, such as `443 demands-v1`. */
export function askedTexts(ports: ReadonlyArray<{ readonly port: number; readonly asked?: { answer: string } }>) {
  return ports.flatMap(({ port, asked }) => (asked === undefined ? [] : [`${port} ${asked.answer}`]));
}
