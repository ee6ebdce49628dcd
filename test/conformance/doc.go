// Package conformance has only tests: clients that people use, unmodified,
// against a router in front of simulated model servers. The Go SDKs always run;
// the Python and Node ones do after install.sh, when WARMRING_SDKS is 1.
package conformance
