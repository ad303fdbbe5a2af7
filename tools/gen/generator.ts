/** Generates one file of the repository from another one. Nobody edits the generated file. */
export interface Generator {
  /** Name for `npm run gen -- NAME`. */
  readonly name: string;
  /** Path relative to the repository's root, with forward slashes. */
  readonly file: string;
  render(): Promise<string>;
}
