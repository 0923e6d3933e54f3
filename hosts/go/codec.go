package lean

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"
)

// wireError says that bytes do not decode as what they should be; fatal for the connection. Its name is one of
// bad_magic, frame_too_large, bad_header, truncated, bad_head.
type wireError struct{ name, reason string }

func (e *wireError) Error() string { return e.reason }

func badHead(format string, args ...any) *wireError {
	return &wireError{"bad_head", fmt.Sprintf(format, args...)}
}

// encodeHead encodes a message's head in the postcard subset of bridge/PROTOCOL.md.
func encodeHead(message any) []byte { return putValue(nil, reflect.ValueOf(message)) }

// decodeHead decodes a head of a known kind. HELLO may be longer than known here: newer bridges append fields.
func decodeHead(kind uint16, head []byte) (any, error) {
	name := nameOf[kind]
	v := reflect.New(headOf[kind]).Elem()
	r := &headReader{head: head}
	if err := r.value(v); err != nil {
		return nil, badHead("%s: %v", name, err)
	}
	if left := len(head) - r.at; left > 0 && name != "HELLO" {
		return nil, badHead("%s: %d bytes too many", name, left)
	}
	return v.Interface(), nil
}

func putValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			b = putValue(b, v.Field(i))
		}
		return b
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.Float32:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v.Float())))
	case reflect.Float64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Float()))
	case reflect.String:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		return append(b, v.String()...)
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return putValue(append(b, 1), v.Elem())
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(b, v.Bytes()...)
		}
		for i := range v.Len() {
			b = putValue(b, v.Index(i))
		}
		return b
	}
	panic("lean: no wire type for " + v.Type().String())
}

type headReader struct {
	head []byte
	at   int
}

func (r *headReader) take(n uint64, what string) ([]byte, error) {
	if n > uint64(len(r.head)-r.at) {
		return nil, badHead("the head ends inside %s at byte %d", what, r.at)
	}
	r.at += int(n)
	return r.head[r.at-int(n) : r.at], nil
}

func (r *headReader) varint(bits uint) (uint64, error) {
	var value uint64
	for shift := uint(0); ; shift += 7 {
		b, err := r.take(1, "a number")
		if err != nil {
			return 0, err
		}
		group := uint64(b[0] & 0x7f)
		if shift >= bits || (shift+7 > bits && group>>(bits-shift) > 0) {
			return 0, badHead("a number of more than %d bits at byte %d", bits, r.at)
		}
		value |= group << shift
		if b[0] < 0x80 {
			if b[0] == 0 && shift > 0 {
				return 0, badHead("an overlong number at byte %d", r.at)
			}
			return value, nil
		}
	}
}

func (r *headReader) flag(what string) (bool, error) {
	b, err := r.take(1, what)
	if err == nil && b[0] > 1 {
		err = badHead("%s of %d at byte %d", what, b[0], r.at)
	}
	return err == nil && b[0] == 1, err
}

func (r *headReader) value(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if err := r.value(v.Field(i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Bool:
		b, err := r.flag("a bool")
		v.SetBool(b)
		return err
	case reflect.Uint32, reflect.Uint64:
		n, err := r.varint(uint(v.Type().Bits()))
		v.SetUint(n)
		return err
	case reflect.Int64:
		n, err := r.varint(64)
		v.SetInt(int64(n>>1) ^ -int64(n&1))
		return err
	case reflect.Float32:
		b, err := r.take(4, "a float")
		if err == nil {
			v.SetFloat(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
		return err
	case reflect.Float64:
		b, err := r.take(8, "a float")
		if err == nil {
			v.SetFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
		return err
	case reflect.String:
		b, err := r.bytes("a string")
		if err == nil && !utf8.Valid(b) {
			err = badHead("a string that is not UTF-8 before byte %d", r.at)
		}
		v.SetString(string(b))
		return err
	case reflect.Pointer:
		is, err := r.flag("an option")
		if err != nil || !is {
			return err
		}
		v.Set(reflect.New(v.Type().Elem()))
		return r.value(v.Elem())
	case reflect.Slice:
		return r.slice(v)
	}
	panic("lean: no wire type for " + v.Type().String())
}

func (r *headReader) bytes(what string) ([]byte, error) {
	n, err := r.varint(64)
	if err != nil {
		return nil, err
	}
	return r.take(n, what)
}

func (r *headReader) slice(v reflect.Value) error {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b, err := r.bytes("bytes")
		v.SetBytes(b)
		return err
	}
	n, err := r.varint(64)
	if err != nil {
		return err
	}
	// Every element takes at least one byte, so a count beyond the rest of the head is a lie.
	if n > uint64(len(r.head)-r.at) {
		return badHead("a sequence of %d in %d bytes at byte %d", n, len(r.head)-r.at, r.at)
	}
	v.Set(reflect.MakeSlice(v.Type(), int(n), int(n)))
	for i := range v.Len() {
		if err := r.value(v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}
