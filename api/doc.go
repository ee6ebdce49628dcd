// Package api is the HTTP edge of a router: the listener's server, routes,
// limits, keys, and one table of errors for the two dialects that clients
// speak, OpenAI's and SageMaker's runtime. A request takes one straight path:
// route, authorise, read and scan, map, hand over to the proxy, record.
package api
