// Package sagemaker speaks the dialect of SageMaker's runtime API (version
// 2017-05-13): header rules, error bodies, and the event stream. Names and
// texts on the wire are those that the AWS SDKs read.
package sagemaker

import "net/http"

// Account stands where messages and ARNs of the real service have the number
// of an AWS account.
const Account = "000000000000"

// Names of headers, in net/http's canonical form.
const (
	HeaderRequestID       = "X-Amzn-Requestid"
	HeaderErrorType       = "X-Amzn-Errortype"
	HeaderPrefixAwareID   = "X-Amzn-Sagemaker-Prefix-Aware-Id"
	HeaderTargetVariant   = "X-Amzn-Sagemaker-Target-Variant"
	HeaderComponent       = "X-Amzn-Sagemaker-Inference-Component"
	HeaderAdapter         = "X-Amzn-Sagemaker-Adapter-Identifier" // towards the model server: which LoRA adapter
	headerAccept          = "X-Amzn-Sagemaker-Accept"
	headerAttributes      = "X-Amzn-Sagemaker-Custom-Attributes"
	headerContentType     = "X-Amzn-Sagemaker-Content-Type"
	headerHostname        = "X-Amzn-Sagemaker-Target-Container-Hostname"
	headerInferenceID     = "X-Amzn-Sagemaker-Inference-Id"
	headerInvokedVariant  = "X-Amzn-Invoked-Production-Variant"
	headerSessionID       = "X-Amzn-Sagemaker-Session-Id"
	headerTargetModel     = "X-Amzn-Sagemaker-Target-Model"
	headerExplanations    = "X-Amzn-Sagemaker-Enable-Explanations"
	typeJSON              = "application/json"
	typeOctets            = "application/octet-stream"
	typeEventStream       = "application/vnd.amazon.eventstream"
	modelContainer        = "primary" // what the service calls an endpoint's only container
	maxOriginalMessage    = 16 << 10  // bytes of a model server's error that are passed on
	codeClientErrorModel  = "CLIENT_ERROR_FROM_MODEL"
	codeServerErrorModel  = "SERVER_ERROR_FROM_MODEL"
	codeStreamBroken      = "StreamBroken"
	codeStreamTimeout     = "ModelInvocationTimeExceeded"
	exceptionModelStream  = "ModelStreamError"
	exceptionStreamFailed = "InternalStreamFailure"
)

// Writer is a client's connection. FlushError sends what was written.
type Writer interface {
	http.ResponseWriter
	FlushError() error
}
