// podsecurity tells the strictest Pod Security level that each pod of a manifest meets: podsecurity <MANIFESTS
//
// It applies the checks of the API server's own admission plugin, so that the answer is the cluster's answer, and prints
// one line per workload, "KIND NAME LEVEL", with the reasons against the next stricter level behind it.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// object is a Pod or a workload that makes pods, as far as this program reads it.
type object struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            struct {
		corev1.PodSpec `json:",inline"`
		Template       *corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// pod returns the pod that the object is or makes, or false for any other kind.
func (o *object) pod() (metav1.ObjectMeta, corev1.PodSpec, bool) {
	switch o.Kind {
	case "Pod":
		return o.Metadata, o.Spec.PodSpec, true
	case "DaemonSet", "Deployment", "StatefulSet", "Job":
		if o.Spec.Template != nil {
			return o.Spec.Template.ObjectMeta, o.Spec.Template.Spec, true
		}
	}
	return metav1.ObjectMeta{}, corev1.PodSpec{}, false
}

// strictest returns the strictest level that admits the pod, and why the next stricter one does not.
func strictest(evaluator policy.Evaluator, meta *metav1.ObjectMeta, spec *corev1.PodSpec) (api.Level, string) {
	reason := ""
	for _, level := range []api.Level{api.LevelRestricted, api.LevelBaseline} {
		at := api.LevelVersion{Level: level, Version: api.LatestVersion()}
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(at, meta, spec))
		if result.Allowed {
			return level, reason
		}
		reason = fmt.Sprintf("not %s: %s", level, result.ForbiddenDetail())
	}
	return api.LevelPrivileged, reason
}

func run(input io.Reader) error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(input, 4096)
	for {
		var found object
		if err := decoder.Decode(&found); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		meta, spec, ok := found.pod()
		if !ok {
			continue
		}
		level, reason := strictest(evaluator, &meta, &spec)
		fmt.Println(strings.TrimSpace(fmt.Sprintf("%s %s %s %s", found.Kind, found.Metadata.Name, level, reason)))
	}
}

func main() {
	if err := run(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "podsecurity:", err)
		os.Exit(1)
	}
}
