package lean

import "encoding/json"

// Confidence is how sure the model was of a value, if [AskConfidence] asked for it.
type Confidence struct {
	// Logprob is the natural logarithm of the value's probability among all values of its type.
	Logprob float64 `json:"logprob"`
	// Leaves are the scalars of the value, in order; of text one, the whole.
	Leaves []Leaf `json:"leaves"`
}

// Leaf is how sure the model was of a scalar.
type Leaf struct {
	// Path is its JSON pointer.
	Path string `json:"path"`
	// Logprob is the part of the value's logarithm that its own tokens have.
	Logprob float64 `json:"logprob"`
	// Alternatives are the values that the type allowed here, if they are at most 64, the likeliest first. Their
	// probabilities sum to 1.
	Alternatives []Alternative `json:"alternatives"`
}

// Alternative is a value that a leaf could have had.
type Alternative struct {
	Value       json.RawMessage `json:"value"`
	Probability float64         `json:"probability"`
}

// AskConfidence asks for [Result.Confidence].
func AskConfidence() Part { return option("confidence", true) }
