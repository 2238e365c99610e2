// Gives a module the model that it shows, instead of anywidget's own, which is deaf where the module was loaded late.
const showing = (render) => async ({ model, el }) => {
  const name = model.get("shows").replace("IPY_MODEL_", "");
  return render({ model: await model.widget_manager.get_model(name), el });
};
