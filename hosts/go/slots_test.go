package lean

import (
	"context"
	"slices"
	"testing"
)

func TestGroupsEnterInTheirTurn(t *testing.T) {
	s := &slots{}
	ticketOf := func(count, places int) *ticket {
		k := &ticket{count, places, make(chan struct{})}
		s.waiting = append(s.waiting, k)
		s.admit()
		return k
	}
	entered := func(k *ticket) bool { return !slices.Contains(s.waiting, k) }
	for range 10 {
		ticketOf(1, places(generate{}))
	}
	group := ticketOf(50, groupPlaces(50))
	late := ticketOf(1, places(generate{}))
	short := ticketOf(1, places(checkpointTake{}))
	if entered(group) || entered(late) || !entered(short) {
		t.Error("one after the group overtook it, or what always ends waits")
	}
	s.leave(5)
	if !entered(group) || entered(late) {
		t.Error("the group's turn was missed")
	}
	s.leave(50)
	if !entered(late) {
		t.Error("the one behind the group still waits")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ticketOf(60, groupPlaces(60))
	if err := s.enter(ctx, nil, 1, groupPlaces(1)); err == nil || len(s.waiting) != 1 {
		t.Error("one that is given up stays in the queue", err)
	}
}
