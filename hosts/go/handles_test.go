package lean

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

func TestForgottenHandlesAreFreed(t *testing.T) {
	ctx := context.Background()
	e, err := Spawn(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	model, err := e.Load(ctx, "echo", nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := model.Session(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	forget := func() (uint32, uint32) {
		c, err := session.Checkpoint(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s, err := session.Fork(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return c.id, s.id
	}
	c, s := forget()
	freed := func(m any) bool {
		r, err := e.conn.open(ctx, m, nil, nil, false)
		if err == nil {
			_, err = r.wait(ctx, nil)
		}
		return errors.Is(err, ErrInvalidArgument)
	}
	for range 500 {
		runtime.GC()
		if freed(checkpointSave{Checkpoint: c}) && freed(sessionFork{s}) {
			if _, err := session.Checkpoint(ctx); err != nil {
				t.Fatal("what is in use was freed: ", err)
			}
			runtime.KeepAlive(model)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("they live on")
}
