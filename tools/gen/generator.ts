/** A file of the repository that is made from another one, and never edited. */
export interface Generator {
  /** For `npm run gen -- NAME`. */
  readonly name: string;
  /** Path from the top of the repository, with forward slashes. */
  readonly file: string;
  /** Undefined: there is to be no such file. */
  render(): Promise<string | undefined>;
}
