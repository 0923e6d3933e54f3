package lean

import (
	"context"
	"slices"
	"sync"
)

// openMax is the bridge's own limit of requests that are open at once, which only the end may take up fully.
const openMax = 64

// places is how many requests may be open for one of this kind to be sent. Those that stay open for as long as the
// caller likes leave a few places to those that always end, such as the checkpoint of a stream that is not read on.
func places(message any) int {
	switch message.(type) {
	case generate, sessionAppend, loadModel:
		return openMax - 8
	case shutdown:
		return openMax
	}
	return openMax - 1
}

// groupPlaces is how many requests may be open with a group, which enters whole: as for any generation, but a larger
// group needs more of them, and waits until nearly nothing else is open.
func groupPlaces(count int) int { return max(openMax-8, count) }

// slots are the places of the open requests, and the queue for them.
type slots struct {
	lock    sync.Mutex
	open    int
	waiting []*ticket
}

type ticket struct {
	count, places int
	ready         chan struct{}
}

// enter waits until count requests more may be open, all at once.
func (s *slots) enter(ctx context.Context, over <-chan struct{}, count, places int) error {
	t := &ticket{count, places, make(chan struct{})}
	s.lock.Lock()
	s.waiting = append(s.waiting, t)
	s.admit()
	s.lock.Unlock()
	var err error
	select {
	case <-t.ready:
		return nil
	case <-over:
		err = like(ErrCancelled, "cancelled: the engine was closed")
	case <-ctx.Done():
		err = ended(ctx)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	at := slices.Index(s.waiting, t)
	if at < 0 { // It was admitted meanwhile.
		s.open -= count
		s.admit()
		return err
	}
	s.waiting = slices.Delete(s.waiting, at, at+1)
	s.admit() // Those behind it need not wait for it any more.
	return err
}

// leave gives places back.
func (s *slots) leave(count int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.open -= count
	s.admit()
}

// admit takes those out of the queue whose turn it is. Nobody overtakes one who may take as many places, so that a
// group is not kept waiting for ever by what comes after it; what always ends passes what waits for streams that may not.
func (s *slots) admit() {
	bound := 0
	s.waiting = slices.DeleteFunc(s.waiting, func(t *ticket) bool {
		if t.places <= bound || s.open+t.count > t.places {
			bound = max(bound, t.places)
			return false
		}
		s.open += t.count
		close(t.ready)
		return true
	})
}
