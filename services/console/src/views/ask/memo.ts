import { Component, type ComponentType, type FunctionComponent, h } from "preact";

// A component that is drawn again only when one of its properties changes.
export function memo<P extends object>(inner: FunctionComponent<P>): ComponentType<P> {
  return class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return Object.keys(next).some(
        (name) => next[name as keyof P] !== this.props[name as keyof P],
      );
    }
    override render() {
      return h(inner, this.props as P);
    }
  };
}
