package lean

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
)

const (
	headerBytes     = 16
	maxFrameDefault = 1 << 20
	chunkBytes      = 256 << 10

	flagEnd      = 1
	flagError    = 2
	flagCritical = 4
)

var magic = []byte{0x89, 'L', 'E', 'A', 'N', '\r', '\n', 0x1a}

// A frame as it was read, its head not decoded yet.
type frame struct {
	request    uint32
	kind       uint16
	flags      uint16
	head, tail []byte
}

func (f frame) end() bool { return f.flags&flagEnd != 0 }

// frameBytes are the bytes of a frame from raw parts.
func frameBytes(request uint32, kind, flags uint16, head, tail []byte) []byte {
	b := make([]byte, 0, headerBytes+len(head)+len(tail))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)+len(tail)))
	b = binary.LittleEndian.AppendUint32(b, request)
	b = binary.LittleEndian.AppendUint16(b, kind)
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	return append(append(b, head...), tail...)
}

// messageBytes are the bytes of a frame from a message.
func messageBytes(request uint32, flags uint16, message any, tail []byte) []byte {
	return frameBytes(request, kindOf[reflect.TypeOf(message)], flags, encodeHead(message), tail)
}

// A frameReader turns a byte stream into frames. What it holds never exceeds one frame of the maximum size and a
// small buffer.
type frameReader struct {
	in       *bufio.Reader
	maxFrame uint32
	magic    bool
}

func newFrameReader(in io.Reader, maxFrame uint32, magic bool) *frameReader {
	return &frameReader{in: bufio.NewReaderSize(in, 64<<10), maxFrame: maxFrame, magic: magic}
}

// next is the next frame, io.EOF at the end of the stream, or a *wireError, after which there is no more.
func (r *frameReader) next() (frame, error) {
	if r.magic {
		if err := r.takeMagic(); err != nil {
			return frame{}, err
		}
		r.magic = false
	}
	var h [headerBytes]byte
	if n, err := io.ReadFull(r.in, h[:]); err != nil {
		return frame{}, truncated(n, err)
	}
	bodyLen, headLen := binary.LittleEndian.Uint32(h[0:]), binary.LittleEndian.Uint32(h[12:])
	if bodyLen > r.maxFrame {
		return frame{}, &wireError{"frame_too_large", fmt.Sprintf("a frame of %d bytes; at most %d are allowed", bodyLen, r.maxFrame)}
	}
	if headLen > bodyLen {
		return frame{}, &wireError{"bad_header", fmt.Sprintf("a head of %d bytes in a body of %d", headLen, bodyLen)}
	}
	body := make([]byte, bodyLen)
	if n, err := io.ReadFull(r.in, body); err != nil {
		return frame{}, truncated(headerBytes+n, unexpected(err))
	}
	return frame{
		request: binary.LittleEndian.Uint32(h[4:]),
		kind:    binary.LittleEndian.Uint16(h[8:]),
		flags:   binary.LittleEndian.Uint16(h[10:]),
		head:    body[:headLen:headLen],
		tail:    body[headLen:],
	}, nil
}

// takeMagic notices a wrong byte as soon as it arrives, and then says what came in its place.
func (r *frameReader) takeMagic() error {
	for n := 1; n <= len(magic); n++ {
		found, err := r.in.Peek(n)
		if err != nil {
			return truncated(len(found), unexpected(err))
		}
		if !bytes.HasPrefix(magic, found) {
			text, _ := r.in.Peek(min(r.in.Buffered(), 60))
			return &wireError{"bad_magic", fmt.Sprintf("the stream does not begin with the lean magic but with %q", text)}
		}
	}
	_, err := r.in.Discard(len(magic))
	return err
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func truncated(have int, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &wireError{"truncated", fmt.Sprintf("the stream ended %d bytes into a frame", have)}
	}
	return err
}
