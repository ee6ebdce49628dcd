package sagemaker

import (
	"net/http"
)

// Forward turns a client's headers into those for the model server, in place.
// What signs the request or belongs to the SDK's call stays behind, as it does
// in the real service, and so does Accept-Encoding: an answer may have to be
// put in frames or quoted in a ModelError.
//
// Engines insist on a JSON content type, while the SDKs send none or
// application/octet-stream unless told otherwise; so a body that begins like
// JSON is labelled as such if its client did not say better.
func Forward(h http.Header, body []byte, stream bool) {
	for _, name := range []string{
		"Accept-Encoding", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request", "Authorization",
		"X-Amz-Content-Sha256", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-User-Agent",
	} {
		delete(h, name)
	}
	if stream {
		if accept := h[headerAccept]; len(accept) > 0 {
			h["Accept"] = accept
			delete(h, headerAccept)
		}
	}
	if t := h.Get("Content-Type"); (t == "" || t == typeOctets) && likeJSON(body) {
		h.Set("Content-Type", typeJSON)
	}
}

func likeJSON(body []byte) bool {
	for _, c := range body {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '{' || c == '['
		}
	}
	return false
}
