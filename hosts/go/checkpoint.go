package lean

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
)

// Checkpoint is a state to continue from, bit for bit; it outlives the session it came from. It is freed when
// collected, or with Drop.
type Checkpoint struct {
	// Tokens it holds; -1 if that is not known.
	Tokens int
	// Restored says what was done to it where [RestoreOptions.Policy] said what may be done: "imported", "converted" or
	// "reprefilled". Empty otherwise.
	Restored string
	handle
}

func newCheckpoint(e *Engine, id uint32, tokens int) *Checkpoint {
	c := &Checkpoint{Tokens: tokens, handle: handle{eng: e, id: id}}
	runtime.SetFinalizer(c, func(c *Checkpoint) { c.forget(checkpointDrop{c.id}) })
	return c
}

// restored is the checkpoint of the answer to a request that read one.
func restored(e *Engine, answer checkpoint, tail []byte) (*Checkpoint, error) {
	c := newCheckpoint(e, answer.Checkpoint, int(answer.Tokens))
	if len(tail) > 0 {
		var said struct{ Restored string }
		if err := json.Unmarshal(tail, &said); err != nil {
			return nil, damaged("%v", err)
		}
		c.Restored = said.Restored
	}
	return c, nil
}

func take(ctx context.Context, e *Engine, m checkpointTake, owner any) (*Checkpoint, error) {
	answer, _, err := call[checkpoint](ctx, e.conn, m, nil, owner, nil)
	if err != nil {
		return nil, err
	}
	return newCheckpoint(e, answer.Checkpoint, int(answer.Tokens)), nil
}

// SaveOptions say how a checkpoint is written. The zero value is the default.
type SaveOptions struct {
	// Compress makes it smaller (zstd).
	Compress bool
	// Parent leaves out what that checkpoint has too; it must be given again to restore it.
	Parent *Checkpoint
}

func (c *Checkpoint) saving(options *SaveOptions, path *string) (m checkpointSave, tail []byte, owner []any, err error) {
	if m.Checkpoint, err = c.on(c.eng, "checkpoint"); err != nil || options == nil {
		return checkpointSave{m.Checkpoint, path}, nil, []any{c}, err
	}
	m.Path = path
	document := map[string]any{"compress": options.Compress}
	if options.Parent != nil {
		if document["parent"], err = options.Parent.on(c.eng, "parent"); err != nil {
			return m, nil, nil, err
		}
	}
	tail, err = toJSON(document)
	return m, tail, []any{c, options.Parent}, err
}

// Save writes it to a file, which is always either the old one or the whole new one, and answers its size in bytes. A
// nil options is the default.
func (c *Checkpoint) Save(ctx context.Context, path string, options *SaveOptions) (int64, error) {
	m, tail, owner, err := c.saving(options, some(absolute(path)))
	if err != nil {
		return 0, err
	}
	answer, _, err := call[saved](ctx, c.eng.conn, m, tail, owner, nil)
	return int64(answer.Size), err
}

// Write writes its self-describing bytes, for [Model.Restore] in any process with the same model, and answers how many.
// The bridge waits for a slow writer. After an error what was written is no checkpoint. A nil options is the default.
func (c *Checkpoint) Write(ctx context.Context, w io.Writer, options *SaveOptions) (int64, error) {
	m, tail, owner, err := c.saving(options, nil)
	if err != nil {
		return 0, err
	}
	r, err := c.eng.conn.open(ctx, m, tail, owner, false)
	if err != nil {
		return 0, err
	}
	defer r.close()
	var size uint64
	digest := crc32.NewIEEE()
	for {
		m, more := r.next(ctx)
		if !more {
			break
		}
		piece, is := m.head.(chunk)
		if !is {
			continue
		}
		if piece.Offset != size {
			return int64(size), damaged("a chunk at %d where %d was due", piece.Offset, size)
		}
		n, err := w.Write(m.tail)
		size += uint64(n)
		if err != nil {
			return int64(size), err
		}
		_, _ = digest.Write(m.tail)
	}
	m2, err := r.result(ctx)
	if err != nil {
		return int64(size), err
	}
	answer, _, err := answerOf[saved](m2)
	if err == nil && (answer.Size != size || answer.Digest != digest.Sum32()) {
		err = damaged("size or digest do not match")
	}
	return int64(size), err
}

// Bytes is what Write writes.
func (c *Checkpoint) Bytes(ctx context.Context, options *SaveOptions) ([]byte, error) {
	var b bytes.Buffer
	if _, err := c.Write(ctx, &b, options); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func damaged(format string, args ...any) *Error {
	return like(ErrBadCheckpoint, "the checkpoint was damaged on its way: "+fmt.Sprintf(format, args...))
}

// Drop frees it now. A second time it does nothing.
func (c *Checkpoint) Drop() error { return c.release(checkpointDrop{c.id}) }

// RestoreOptions say how a checkpoint is read. The zero value is the default.
type RestoreOptions struct {
	// Parent is the one that it was written with.
	Parent *Checkpoint
	// Policy says what may be done to a state of another exactness class, such as another backend's: nothing ("exact", the
	// default: it is refused), take it over as it is ("convert"), or take its tokens and compute the state again
	// ("reprefill"). [Checkpoint.Restored] then says what was done.
	Policy string
}

func (m *Model) restoring(options *RestoreOptions, path *string) (load checkpointLoad, tail []byte, owner []any, err error) {
	if load.Model, err = m.on(m.eng, "model"); err != nil {
		return
	}
	load.Path = path
	if options == nil {
		return load, nil, []any{m}, nil
	}
	document := map[string]any{}
	if options.Parent != nil {
		if document["parent"], err = options.Parent.on(m.eng, "parent"); err != nil {
			return
		}
	}
	if options.Policy != "" {
		document["restore"] = options.Policy
	}
	if len(document) > 0 {
		tail, err = toJSON(document)
	}
	return load, tail, []any{m, options.Parent}, err
}

// RestoreFile reads a checkpoint from a file, checked against this model. A nil options is the default.
func (m *Model) RestoreFile(ctx context.Context, path string, options *RestoreOptions) (*Checkpoint, error) {
	load, tail, owner, err := m.restoring(options, some(absolute(path)))
	if err != nil {
		return nil, err
	}
	answer, tail, err := call[checkpoint](ctx, m.eng.conn, load, tail, owner, nil)
	if err != nil {
		return nil, err
	}
	return restored(m.eng, answer, tail)
}

// Restore reads a checkpoint from its bytes, up to the reader's end, checked against this model. A nil options is the
// default.
func (m *Model) Restore(ctx context.Context, from io.Reader, options *RestoreOptions) (*Checkpoint, error) {
	if file, is := from.(*os.File); is && file == nil {
		return nil, invalid("Restore: the reader is nil")
	}
	load, tail, owner, err := m.restoring(options, nil)
	if err != nil {
		return nil, err
	}
	r, err := m.eng.conn.open(ctx, load, tail, owner, false)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.upload(ctx, from); err != nil {
		return nil, err
	}
	m2, err := r.wait(ctx, nil)
	if err != nil {
		return nil, err
	}
	answer, tail, err := answerOf[checkpoint](m2)
	if err != nil {
		return nil, err
	}
	return restored(m.eng, answer, tail)
}

// upload sends a blob as chunks, the last of which says so and has the digest: so one is read ahead.
func (r *request) upload(ctx context.Context, from io.Reader) error {
	var offset uint64
	digest := crc32.NewIEEE()
	piece, err := readPiece(from)
	for last := false; !last; {
		if err != nil {
			return err
		}
		next := []byte(nil)
		if len(piece) == chunkBytes {
			next, err = readPiece(from)
		}
		last = len(next) == 0
		if err != nil {
			return err
		}
		_, _ = digest.Write(piece)
		head, flags := chunk{Offset: offset}, uint16(flagCritical)
		if last {
			head.Digest, flags = some(digest.Sum32()), flags|flagEnd
		}
		written := make(chan struct{})
		r.conn.send(r.id, flags, head, piece, written)
		select {
		case <-written:
		case <-r.done: // It has failed already, and says why.
			return nil
		case <-ctx.Done():
			return nil
		}
		offset += uint64(len(piece))
		piece = next
	}
	return nil
}

// readPiece reads a chunk, which is shorter only at the end.
func readPiece(from io.Reader) ([]byte, error) {
	piece := make([]byte, chunkBytes)
	n, err := io.ReadFull(from, piece)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return piece[:n], err
}
