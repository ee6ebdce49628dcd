package sagemaker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/warmring/warmring/routing/proxy"
)

// Stream is the answer to InvokeEndpointWithResponseStream: each piece of a
// 2xx answer becomes a PayloadPart event. A stream that breaks ends with an
// exception event, since SDKs take the mere end of a connection for success.
type Stream struct {
	w       Writer
	variant string
	fault   fault
	part    []byte // encoded headers of every PayloadPart
	buf     []byte // the frame being sent
}

// NewStream answers on w a request to a variant of an endpoint.
func NewStream(w Writer, endpoint, variant string) *Stream {
	return &Stream{w: w, variant: variant, fault: fault{endpoint: endpoint}}
}

// Begin sends the head of the event stream if the model server's is 2xx.
func (a *Stream) Begin(r *proxy.Reply) error {
	if a.fault.begin(r.Status) {
		return nil
	}
	var err error
	if a.part, err = headers("event", ":event-type", "PayloadPart", typeOctets); err != nil {
		return err
	}
	h := a.w.Header()
	r.Fields.Displace(h)
	r.Fields.AddTo(h)
	delete(h, "Content-Length")
	h.Set("Content-Type", typeEventStream)
	if inner := r.Fields.Get("Content-Type"); inner != "" {
		h.Set(headerContentType, inner)
	}
	h.Set(headerInvokedVariant, a.variant)
	a.w.WriteHeader(http.StatusOK)
	return a.w.FlushError()
}

// Write sends p as one event.
func (a *Stream) Write(p []byte) (int, error) {
	if a.fault.status != 0 {
		return a.fault.keep(p), nil
	}
	for part := range slices.Chunk(p, maxPart) {
		a.buf = appendFrame(a.buf[:0], a.part, part)
		if _, err := a.w.Write(a.buf); err != nil {
			return 0, err
		}
	}
	return len(p), a.w.FlushError()
}

// maxPart keeps an event below what every SDK's decoder accepts (16 MiB).
const maxPart = 1 << 20

// End closes the stream: with an exception event if it broke.
func (a *Stream) End(_ http.Header, broken error) {
	switch {
	case a.fault.status != 0:
		a.fault.write(a.w)
	case broken != nil:
		a.Fail(broken)
	}
}

// Fail ends a stream that has begun with an exception event: ModelStreamError
// when the model server broke it, else InternalStreamFailure.
func (a *Stream) Fail(err error) {
	name, body := exceptionStreamFailed, map[string]string{"Message": "the stream ended early"}
	if up, ok := errors.AsType[*proxy.UpstreamError](err); ok {
		name = exceptionModelStream
		body["ErrorCode"] = codeStreamBroken
		body["Message"] = fmt.Sprintf("the model server's answer ended early: %s", up.Kind)
		if up.Kind == proxy.Timeout {
			body["ErrorCode"] = codeStreamTimeout
		}
	}
	payload, perr := json.Marshal(body)
	encoded, herr := headers("exception", ":exception-type", name, typeJSON)
	if perr != nil || herr != nil {
		return // strings of ours always encode
	}
	if _, werr := a.w.Write(appendFrame(a.buf[:0], encoded, payload)); werr == nil {
		_ = a.w.FlushError() // the client is gone: nobody is left to tell
	}
}

// headers encodes the headers of an event.
func headers(message, key, value, contentType string) ([]byte, error) {
	var b bytes.Buffer
	err := eventstream.EncodeHeaders(&b, eventstream.Headers{
		{Name: ":message-type", Value: eventstream.StringValue(message)},
		{Name: key, Value: eventstream.StringValue(value)},
		{Name: ":content-type", Value: eventstream.StringValue(contentType)},
	})
	return b.Bytes(), err
}

// appendFrame appends one message of an event stream (the format
// application/vnd.amazon.eventstream) with encoded headers: the lengths of all
// and of the headers, their CRC, headers, payload, the CRC of all before. The
// SDK's own encoder allocates about twenty times for each message, which
// matters where every token is one.
func appendFrame(dst, headers, payload []byte) []byte {
	const around = 16 // bytes besides headers and payload
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, uint32(around+len(headers)+len(payload)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(headers)))
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
	dst = append(dst, headers...)
	dst = append(dst, payload...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
}
