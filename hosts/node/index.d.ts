// The same declarations for both kinds of module: only this way round can one kind refer to the other.
export * from './index.cjs';
