"""scikit-learn estimators that train privately and carry their certificate."""

from dplateau.spec.missing import explained

with explained():
    from dplateau.estimators.grid_search import PrivateGridSearch as PrivateGridSearch
    from dplateau.estimators.linear_regression import PrivateLinearRegression as PrivateLinearRegression
    from dplateau.estimators.linear_svc import PrivateLinearSVC as PrivateLinearSVC
    from dplateau.estimators.loading import load_estimator as load_estimator
    from dplateau.estimators.logistic_regression import PrivateLogisticRegression as PrivateLogisticRegression
    from dplateau.estimators.saved_network import load_network as load_network
    from dplateau.estimators.saved_network import save_network as save_network
    from dplateau.estimators.table_model import TableModel as TableModel
    from dplateau.estimators.table_model import load_model as load_model
