package lean

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Class says what to do about an error.
type Class uint32

// The classes of errors.
const (
	// ClassProtocol: the bridge and this client do not understand each other: a bug, or versions that do not match.
	ClassProtocol Class = 1
	// ClassInput: the request cannot be carried out as it is: an argument, a type, a model file, a checkpoint.
	ClassInput Class = 2
	// ClassResource: memory, a device, a file, a limit, the bridge itself.
	ClassResource Class = 3
	// ClassCancelled: the caller, a deadline, or the end of the engine ended it. A session is as it was before.
	ClassCancelled Class = 4
	// ClassInternal: a bug in lean.
	ClassInternal Class = 5
)

func (c Class) String() string {
	names := []string{"unknown", "protocol", "input", "resource", "cancelled", "internal"}
	if int(c) < len(names) {
		return names[c]
	}
	return names[0]
}

// Error is what every call of this package fails with, wrapped or not: use [errors.As]. Those with numbers of their own
// also unwrap to [*TypeError], [*ContextOverflow], [*BudgetTooSmall], [*Incompatible] or [*BridgeExited], and a call
// that its context ended to the context's error.
type Error struct {
	// Code is a stable number, the same in every interface of lean.
	Code uint32
	// Name is the code's short name, such as "context_overflow".
	Name  string
	Class Class
	// Retryable says whether the same call may succeed later.
	Retryable bool
	Message   string
	// Details are the error's own numbers and words, such as {"needed": 5, "available": 4}.
	Details map[string]any
	causes  []error
}

func (e *Error) Error() string { return "lean: " + e.Message }

// Is compares codes, so that errors.Is(err, lean.ErrBusy) works.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && e.Code == other.Code
}

// Unwrap gives the typed error with this error's numbers, and what caused it.
func (e *Error) Unwrap() []error { return e.causes }

// Errors to compare with, by [errors.Is].
var (
	ErrInvalidArgument = &Error{Code: 100, Name: "invalid_argument", Class: ClassInput, Message: "invalid argument"}
	ErrType            = &Error{Code: 110, Name: "type", Class: ClassInput, Message: "type error"}
	ErrContextOverflow = &Error{Code: 130, Name: "context_overflow", Class: ClassInput, Message: "context overflow"}
	ErrBudgetTooSmall  = &Error{Code: 131, Name: "budget_too_small", Class: ClassInput, Message: "budget too small"}
	ErrModelIO         = &Error{Code: 200, Name: "model_io", Class: ClassInput, Message: "model cannot be read"}
	ErrBadModel        = &Error{Code: 201, Name: "bad_model", Class: ClassInput, Message: "bad model"}
	ErrBadCheckpoint   = &Error{Code: 300, Name: "bad_checkpoint", Class: ClassInput, Message: "bad checkpoint"}
	ErrIncompatible    = &Error{Code: 301, Name: "incompatible", Class: ClassInput, Message: "incompatible checkpoint"}
	ErrBusy            = &Error{Code: 420, Name: "busy", Class: ClassResource, Message: "busy"}
	ErrCancelled       = &Error{Code: 500, Name: "cancelled", Class: ClassCancelled, Message: "cancelled"}
	ErrTimeout         = &Error{Code: 501, Name: "timeout", Class: ClassCancelled, Message: "timed out"}
	ErrPanic           = &Error{Code: 901, Name: "panic", Class: ClassInternal, Message: "panic"}
	ErrBridgeNotFound  = &Error{Code: 690, Name: "bridge_not_found", Class: ClassResource, Message: "no bridge"}
	ErrBridgeExited    = &Error{Code: 691, Name: "bridge_exited", Class: ClassResource, Message: "the bridge exited"}
)

// TypeError says what of a type cannot be enforced, and where.
type TypeError struct {
	// At is a JSON pointer into the schema, a place in the type expression, or a path through the Go type.
	At string
	// Keyword is the keyword or operator, where it is one.
	Keyword string
	Reason  string
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("type error at %s: %s", e.At, strings.TrimPrefix(e.Keyword+": "+e.Reason, ": "))
}

// ContextOverflow says that a context cannot hold what was asked for, in tokens.
type ContextOverflow struct{ Needed, Available int }

func (e *ContextOverflow) Error() string {
	return fmt.Sprintf("%d tokens are needed, the context has room for %d", e.Needed, e.Available)
}

// BudgetTooSmall says how many tokens even the shortest value of the type needs.
type BudgetTooSmall struct{ Needed int }

func (e *BudgetTooSmall) Error() string { return fmt.Sprintf("a value needs %d tokens", e.Needed) }

// Incompatible says what keeps a checkpoint from being restored here.
type Incompatible struct{ What, Expected, Found string }

func (e *Incompatible) Error() string {
	return fmt.Sprintf("%s: expected %s, found %s", e.What, e.Expected, e.Found)
}

// BridgeExited is how the bridge process ended. Start another one and continue from a checkpoint.
type BridgeExited struct {
	// Status is the exit status; -1 if a signal or something else ended it.
	Status int
	// Signal, such as "SIGKILL", if one ended it.
	Signal string
	// Stderr is the end of what it wrote there.
	Stderr string
	// How says it in words.
	How string
}

func (e *BridgeExited) Error() string {
	if words := strings.TrimSpace(e.Stderr); words != "" {
		return fmt.Sprintf("the bridge %s\nIts last words:\n%s", e.How, words)
	}
	return "the bridge " + e.How
}

// like makes an error of the kind of a sentinel.
func like(kind *Error, message string, causes ...error) *Error {
	return &Error{Code: kind.Code, Name: kind.Name, Class: kind.Class, Message: message, causes: causes}
}

// invalid is a wrong argument, noticed before anything was sent.
func invalid(format string, args ...any) *Error {
	return like(ErrInvalidArgument, fmt.Sprintf(format, args...))
}

// refusedType is a Go type that says nothing about JSON.
func refusedType(at, format string, args ...any) *Error {
	detail := &TypeError{At: at, Reason: fmt.Sprintf(format, args...)}
	e := like(ErrType, detail.Error(), detail)
	e.Details = map[string]any{"at": detail.At, "reason": detail.Reason}
	return e
}

func exited(how *BridgeExited) *Error {
	e := like(ErrBridgeExited, how.Error(), how)
	e.Retryable = true
	return e
}

func protocolError(code uint32, name, format string, args ...any) *Error {
	return &Error{Code: code, Name: name, Class: ClassProtocol, Message: fmt.Sprintf(format, args...)}
}

// ended is the error of a call that its context ended.
func ended(ctx context.Context) *Error {
	causes := []error{ctx.Err()}
	if cause := context.Cause(ctx); cause != ctx.Err() {
		causes = append(causes, cause)
	}
	if ctx.Err() == context.DeadlineExceeded {
		e := like(ErrTimeout, "timed out", causes...)
		e.Retryable = true
		return e
	}
	return like(ErrCancelled, "cancelled", causes...)
}

// errorOf is the error of an ERROR frame.
func errorOf(f failed, tail []byte) *Error {
	e := &Error{Code: f.Code, Name: f.Name, Class: Class(f.Class), Retryable: f.Retryable, Message: f.Message}
	// The numbers are an extra: where they cannot be read, the error itself must arrive.
	_ = json.Unmarshal(tail, &e.Details)
	var detail error
	switch e.Code {
	case ErrType.Code:
		detail = &TypeError{}
	case ErrContextOverflow.Code:
		detail = &ContextOverflow{}
	case ErrBudgetTooSmall.Code:
		detail = &BudgetTooSmall{}
	case ErrIncompatible.Code:
		detail = &Incompatible{}
	default:
		return e
	}
	if json.Unmarshal(tail, detail) == nil {
		e.causes = []error{detail}
	}
	return e
}
