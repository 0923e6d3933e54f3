package lean

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// creditDefault is how many events a request may have on the way: the bridge waits for a consumer that is this far
	// behind.
	creditDefault = 32
	// exitPatience is how long a bridge that broke the protocol, or closed its stdout, may take to end by itself.
	exitPatience = time.Second
	// cancelPatience is how long the end of a cancelled request is waited for: it takes one step, or a layer of a prefill.
	cancelPatience = 5 * time.Second
)

// conn is the protocol over a transport: handshake, requests, events with credit, cancellation. One goroutine reads
// frames and hands them to their requests, one writes them; events are handled by whoever made the call.
type conn struct {
	transport Transport
	credit    uint32
	reader    *frameReader
	greeted   chan hello
	slots     slots
	// closing is closed when the engine was asked to end: nothing waits for its turn any more.
	closing chan struct{}
	// dead is closed once everything is over and all calls know.
	dead chan struct{}

	lock     sync.Mutex
	requests map[uint32]*request
	lastID   uint32
	over     error
	maxFrame uint32
	jobs     []job
	wake     chan struct{}
}

// A job of the writer: bytes to write, or the end.
type job struct {
	bytes   []byte
	end     bool
	written chan<- struct{}
}

// A message is a decoded frame; its head is nil if its kind is unknown here.
type message struct {
	head any
	tail []byte
}

func newConn(t Transport, credit uint32) *conn {
	c := &conn{
		transport: t,
		credit:    credit,
		reader:    newFrameReader(t, maxFrameDefault, true),
		maxFrame:  maxFrameDefault,
		greeted:   make(chan hello, 1),
		closing:   make(chan struct{}),
		dead:      make(chan struct{}),
		requests:  map[uint32]*request{},
		wake:      make(chan struct{}, 1),
	}
	go c.write()
	go c.read()
	return c
}

// A request that was sent. Its events are taken with next, by one goroutine at a time.
type request struct {
	id   uint32
	conn *conn
	// owner is kept from being collected, and its handle in the bridge from being freed, until the end.
	owner  any
	events chan message
	// done is closed when the end has arrived, after answer or err was set.
	done   chan struct{}
	answer message
	err    error

	cancelled sync.Once
	// owes is set while the event that was taken last has not been given back as credit.
	owes     bool
	consumed uint32
}

// open sends a request, once there is a place for it. With prepaid, the caller has taken the place.
func (c *conn) open(ctx context.Context, m any, tail []byte, owner any, prepaid bool) (*request, error) {
	if c == nil {
		return nil, invalid("this is a zero value, and no engine: Spawn starts one")
	}
	r := &request{conn: c, owner: owner, events: make(chan message, c.credit), done: make(chan struct{})}
	bytes := messageBytes(0, flagCritical, m, tail)
	if err := ctx.Err(); err != nil {
		return nil, ended(ctx)
	}
	c.lock.Lock()
	over, most := c.over, int(c.maxFrame)
	c.lock.Unlock()
	if over != nil {
		return nil, over
	}
	if body := len(bytes) - headerBytes; body > most {
		return nil, invalid("the request has %d bytes; at most %d fit a frame: a long context can be appended to a session in parts", body, most)
	}
	if !prepaid {
		if err := c.slots.enter(ctx, c.closing, 1, places(m)); err != nil {
			return nil, err
		}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.over != nil {
		if !prepaid {
			c.slots.leave(1)
		}
		return nil, c.over
	}
	for r.id == 0 || c.requests[r.id] != nil {
		c.lastID = c.lastID%0x7fff_ffff + 1
		r.id = c.lastID
	}
	c.requests[r.id] = r
	bytes[4], bytes[5], bytes[6], bytes[7] = byte(r.id), byte(r.id>>8), byte(r.id>>16), byte(r.id>>24)
	c.queue(job{bytes: bytes})
	return r, nil
}

// queue hands the writer a job. The lock is held.
func (c *conn) queue(j job) {
	c.jobs = append(c.jobs, j)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *conn) send(request uint32, flags uint16, m any, tail []byte, written chan<- struct{}) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.queue(job{bytes: messageBytes(request, flags, m, tail), written: written})
}

// post sends a request that nobody waits for.
func (c *conn) post(m any) {
	if r, err := c.open(context.Background(), m, nil, nil, false); err == nil {
		<-r.done
	}
}

// hangUp ends the bridge's stdin, and with it the bridge.
func (c *conn) hangUp() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.queue(job{end: true})
}

func (c *conn) write() {
	going := true
	for {
		select {
		case <-c.wake:
		case <-c.dead:
			_ = c.transport.CloseWrite()
			return
		}
		c.lock.Lock()
		jobs := c.jobs
		c.jobs = nil
		c.lock.Unlock()
		for _, j := range jobs {
			if j.end {
				going = false
				_ = c.transport.CloseWrite()
			} else if going {
				_, err := c.transport.Write(j.bytes)
				going = err == nil
			}
			if j.written != nil {
				close(j.written)
			}
		}
	}
}

// read takes frames until the connection ends, and then tells everybody.
func (c *conn) read() {
	failure := c.frames()
	if failure != nil {
		// No more can be understood: the bridge has to go, and its account of itself joins the error.
		c.hangUp()
	}
	account := make(chan *BridgeExited, 1)
	go func() { account <- c.transport.Wait() }()
	var how *BridgeExited
	select {
	case how = <-account:
	case <-time.After(exitPatience):
		_ = c.transport.Kill()
		how = <-account
	}
	if failure == nil {
		failure = exited(how)
	} else {
		failure.causes = append(failure.causes, how)
	}
	c.fail(failure, how)
}

// frames handles frames up to the end of the stream, or to an error that ends the connection.
func (c *conn) frames() *Error {
	for {
		f, err := c.reader.next()
		if err == nil {
			err = c.frame(f)
		}
		var wire *wireError
		var own *Error
		switch {
		case err == nil:
			continue
		case errors.As(err, &own):
			return own
		case errors.As(err, &wire) && wire.name != "truncated":
			return protocolError(600, "protocol", "the bridge does not speak the protocol: %v", err)
		default:
			// It ended, perhaps inside a frame: how it did says more.
			return nil
		}
	}
}

func (c *conn) frame(f frame) error {
	m := message{tail: f.tail}
	if _, known := headOf[f.kind]; known {
		head, err := decodeHead(f.kind, f.head)
		if err != nil {
			return err
		}
		m.head = head
	}
	if f.request == 0 {
		return c.control(m)
	}
	c.lock.Lock()
	r := c.requests[f.request]
	if r != nil && f.end() {
		delete(c.requests, f.request)
	}
	c.lock.Unlock()
	if r == nil {
		return nil
	}
	if f.end() {
		c.finish(r, f, m)
		return nil
	}
	select {
	case r.events <- m:
		return nil
	default:
		return protocolError(600, "protocol", "the bridge sent more events than there was credit for")
	}
}

func (c *conn) finish(r *request, f frame, m message) {
	switch head := m.head.(type) {
	case failed:
		r.err = errorOf(head, m.tail)
	case nil:
		r.err = protocolError(602, "unknown_kind", "the bridge answered with kind %#x, which is unknown here", f.kind)
	default:
		r.answer = m
	}
	c.slots.leave(1)
	r.owner = nil
	close(r.done)
}

func (c *conn) control(m message) error {
	switch head := m.head.(type) {
	case failed:
		return errorOf(head, m.tail)
	case hello:
		if head.Major != protocolMajor || head.MinorMin > protocolMinor || head.MinorMax < protocolMinor {
			return protocolError(601, "version", "this client speaks protocol %d.%d, the bridge (%s) %d.%d to %d.%d",
				protocolMajor, protocolMinor, head.Engine, head.Major, head.MinorMin, head.Major, head.MinorMax)
		}
		ack := helloAck{Minor: protocolMinor, Credit: c.credit}
		if head.MaxFrame > maxFrameDefault {
			ack.MaxFrame = some[uint32](maxFrameDefault)
		}
		c.reader.maxFrame = min(head.MaxFrame, maxFrameDefault)
		c.lock.Lock()
		c.maxFrame = c.reader.maxFrame
		c.lock.Unlock()
		c.send(0, 0, ack, nil, nil)
		select {
		case c.greeted <- head:
		default:
			return protocolError(600, "protocol", "the bridge greeted twice")
		}
	}
	return nil
}

// fail ends every call that is open, and every later one.
func (c *conn) fail(err error, how *BridgeExited) {
	c.lock.Lock()
	pending := c.requests
	c.requests = map[uint32]*request{}
	if c.over == nil {
		c.over = err
	} else if how.Status == 0 {
		// It was asked to go: what it had no time to answer was cancelled, and no accident.
		err = like(ErrCancelled, "cancelled: the engine was closed")
	}
	c.lock.Unlock()
	for _, r := range pending {
		r.err = err
		r.owner = nil
		close(r.done)
	}
	c.startClosing()
	close(c.dead)
}

func (c *conn) startClosing() {
	c.lock.Lock()
	defer c.lock.Unlock()
	select {
	case <-c.closing:
	default:
		close(c.closing)
	}
}

// close ends everything in good order; from now on every call fails.
func (c *conn) close(patience time.Duration) {
	c.startClosing()
	r, err := c.open(context.Background(), shutdown{}, nil, nil, true)
	c.lock.Lock()
	if c.over == nil {
		c.over = exited(&BridgeExited{Status: -1, How: "was closed by this program"})
	}
	c.lock.Unlock()
	if err == nil {
		wait(r.done, patience)
	}
	c.hangUp()
	if !wait(c.dead, patience) {
		_ = c.transport.Kill()
		<-c.dead
	}
}

func wait(done <-chan struct{}, patience time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

// cancel ends the request early.
func (r *request) cancel() {
	r.cancelled.Do(func() {
		select {
		case <-r.done:
		default:
			r.conn.send(r.id, 0, cancel{}, nil, nil)
		}
	})
}

// close cancels it and waits for its end, so that its session is free again.
func (r *request) close() {
	r.cancel()
	wait(r.done, cancelPatience)
}

// next is the next event; false once there is none: then result has the answer. An ended context cancels the request.
func (r *request) next(ctx context.Context) (message, bool) {
	r.giveBack()
	// An event that has arrived comes before the end.
	select {
	case m := <-r.events:
		r.owes = true
		return m, ctx.Err() == nil || r.stop(ctx)
	default:
	}
	select {
	case m := <-r.events:
		r.owes = true
		return m, true
	case <-r.done:
		select {
		case m := <-r.events:
			r.owes = true
			return m, true
		default:
			return message{}, false
		}
	case <-ctx.Done():
		return message{}, r.stop(ctx)
	}
}

// stop cancels the request for its context and says that no event follows.
func (r *request) stop(ctx context.Context) bool {
	r.close()
	return false
}

// giveBack returns credit in halves of what there was, so that a token does not cost a frame each way.
func (r *request) giveBack() {
	if !r.owes {
		return
	}
	r.owes = false
	r.consumed++
	if r.consumed >= max(1, r.conn.credit/2) {
		r.conn.send(r.id, 0, credit{Events: r.consumed}, nil, nil)
		r.consumed = 0
	}
}

// result is the answer, once next has said that no event follows. If the context ended the call, so does the error.
func (r *request) result(ctx context.Context) (message, error) {
	select {
	case <-r.done:
	default: // The bridge does not answer a cancellation.
		return message{}, ended(ctx)
	}
	if errors.Is(r.err, ErrCancelled) && ctx.Err() != nil {
		return message{}, ended(ctx)
	}
	return r.answer, r.err
}

// wait lets all events pass, or hands them to a listener, and gives the answer.
func (r *request) wait(ctx context.Context, listen func(message)) (message, error) {
	// What interrupts this, a panicking listener too, cancels the request.
	defer r.close()
	for {
		m, more := r.next(ctx)
		if !more {
			return r.result(ctx)
		}
		if listen != nil {
			listen(m)
		}
	}
}

// call sends a request and waits for its answer, which must be an A.
func call[A any](ctx context.Context, c *conn, m any, tail []byte, owner any, listen func(message)) (A, []byte, error) {
	var none A
	r, err := c.open(ctx, m, tail, owner, false)
	if err != nil {
		return none, nil, err
	}
	answer, err := r.wait(ctx, listen)
	if err != nil {
		return none, nil, err
	}
	return answerOf[A](answer)
}

func answerOf[A any](m message) (A, []byte, error) {
	head, is := m.head.(A)
	if !is {
		return head, nil, protocolError(600, "protocol", "the bridge answered with a %T where a %T was due", m.head, head)
	}
	return head, m.tail, nil
}
