package load

import "time"

// Message is one of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Turn is one request of a session.
type Turn struct {
	Messages []Message     // that it adds to those before and to their answers
	Output   int           // tokens of the answer at most
	Think    time.Duration // from the answer before to this request; not used for the first
}

// Session is a conversation. A turn that fails ends it.
type Session struct {
	Start time.Duration // when it begins, since the run began; a closed loop does not use it
	Turns []Turn
}

// Script is a source of sessions. It is not called by two goroutines at once.
type Script interface {
	// Next returns the next session by start; false: there are no more.
	Next() (Session, bool)
}
