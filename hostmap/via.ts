/** By what a new pod gets the names: `hosts` by hostAliases, `dns` by the resolvers of pod DNS. */
export type Via = "hosts" | "dns";
