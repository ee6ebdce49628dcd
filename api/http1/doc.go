// Package http1 serves HTTP/1.1 and HTTP/1.0 connections with one goroutine
// each, on net/http's own request parser. It is for a proxy's data plane, where
// net/http's server spends more on a request than the proxy does: it starts and
// stops a goroutine per request to see the client leave, and reads and writes
// through small buffers. A handler sees no difference, but for what DESIGN.md
// lists. HTTP/2 connections are recognised and handed to an http.Server.
package http1
