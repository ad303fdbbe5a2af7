/** The names of all publishers. */
export const PUBLISHERS = ["coredns-import", "coredns", "external-dns"] as const;
export type PublisherName = (typeof PUBLISHERS)[number];
